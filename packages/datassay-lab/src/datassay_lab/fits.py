"""Sweeps, fitted exponents, relative errors; digits, and networks fitted by full batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from datassay.data import load
from datassay.progress import Progress

T = TypeVar("T")


def tracked(steps: Iterable[T], progress: Progress, name: str) -> Iterator[T]:
    """The steps of a loop, each reported when its body ends."""
    listed = list(steps)
    for done, step in enumerate(listed):
        yield step
        progress(name, done + 1, len(listed))


def spread_counts(first: float, last: float, count: int) -> Int[np.ndarray, " m"]:
    """Whole numbers, rising and evenly spaced in the logarithm; fewer where small ones repeat."""
    return np.unique(np.geomspace(first, last, count).round().astype(int))


def exponent(x: Float[np.ndarray, " m"], y: Float[np.ndarray, " m"]) -> float:
    """Exponent a of y ≈ c xᵃ, by least squares of the logarithms."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def relative_error(estimate: np.ndarray, expected: np.ndarray) -> float:
    """‖estimate − expected‖ / ‖expected‖, Frobenius."""
    return float(np.linalg.norm(estimate - expected) / np.linalg.norm(expected))


def digit_images(
    seed: int, count: int | None = None
) -> tuple[Float[np.ndarray, "n 8 8"], Int[np.ndarray, " n"]]:
    """Digits of 8 x 8 pixels in [0, 1] and their labels, in random order; None for all 1797."""
    parts = load("digits")
    images = np.concatenate([part.x[:, 0] for part in parts]).astype(float)
    labels = np.concatenate([part.y for part in parts])
    order = np.random.default_rng(seed).permutation(len(labels))[:count]
    return images[order], labels[order]


def fit_by_lbfgs(
    network: nn.Module, inputs: Float[Tensor, "n d"], targets: Float[Tensor, "n k"], iterations: int
) -> None:
    """Minimise the mean over samples of ‖f(x) − y‖² by L-BFGS; changes the network in place."""
    optimizer = torch.optim.LBFGS(
        network.parameters(), max_iter=iterations, max_eval=2 * iterations, history_size=50,
        tolerance_grad=1e-9, tolerance_change=1e-12, line_search_fn="strong_wolfe",
    )  # fmt: skip

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = ((network(inputs) - targets) ** 2).sum(1).mean()
        value.backward()
        return value

    optimizer.step(loss)
