"""Sweeps, exponents, errors; digits and the groups of their pixels; networks fitted to arrays."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from datassay.data import SampleSet, load
from datassay.models import seeded
from datassay.progress import Progress, silent
from datassay.train import Recipe, taken_network, train_networks

T = TypeVar("T")


def track(steps: Iterable[T], progress: Progress, name: str) -> Iterator[T]:
    """Yield the steps of a loop; report each when its body ends."""
    all_steps = list(steps)
    for done, step in enumerate(all_steps):
        yield step
        progress(name, done + 1, len(all_steps))


def spread_counts(first: float, last: float, count: int) -> Int[np.ndarray, " m"]:
    """Return whole numbers, rising, evenly spaced in the logarithm; repeated ones merged."""
    return np.unique(np.geomspace(first, last, count).round().astype(int))


def exponent(x: Float[np.ndarray, " m"], y: Float[np.ndarray, " m"]) -> float:
    """Fit the exponent a of y ≈ c xᵃ, by least squares of the logarithms."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def relative_error(estimate: np.ndarray, expected: np.ndarray) -> float:
    """Return ‖estimate − expected‖ / ‖expected‖, Frobenius."""
    return float(np.linalg.norm(estimate - expected) / np.linalg.norm(expected))


def digit_images(
    seed: int, count: int | None = None
) -> tuple[Float[np.ndarray, "n 8 8"], Int[np.ndarray, " n"]]:
    """Return digits of 8 x 8 pixels in [0, 1] and labels, in random order; None for all 1797."""
    sets = load("digits")
    images = np.concatenate([samples.x[:, 0] for samples in sets]).astype(float)
    labels = np.concatenate([samples.y for samples in sets])
    order = np.random.default_rng(seed).permutation(len(labels))[:count]
    return images[order], labels[order]


def fit_by_lbfgs(
    network: nn.Module, inputs: Float[Tensor, "n d"], targets: Float[Tensor, "n k"], iterations: int
) -> None:
    """Fit a network in place by L-BFGS: it minimises the mean over samples of ‖f(x) − y‖²."""
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


GROUPS = ("shifts", "rotations")


def pixel_orders(group: str, side: int) -> Int[np.ndarray, "G p"]:
    """Return the permutation of the pixels by each member of the group: (gx) = x[order]."""
    # The identity is first. As matrices the members are orthogonal, and their inverses are members.
    # group: "shifts", all side² cyclic ones in the order of their rows, then columns, or
    # "rotations", by 0, 90, 180 and 270 degrees. side: of the image in pixels; p = side².
    grid = np.arange(side * side).reshape(side, side)
    if group == "rotations":
        return np.array([np.rot90(grid, k).ravel() for k in range(4)])
    shifts = ((down, across) for down in range(side) for across in range(side))
    return np.array([np.roll(grid, shift, axis=(0, 1)).ravel() for shift in shifts])


def fit_network(
    build: Callable[[], nn.Module],
    images: Float[np.ndarray, "n H W"],
    labels: Int[np.ndarray, " n"],
    recipe: Recipe,
    *,
    seed: int,
    progress: Progress = silent,
) -> nn.Module:
    """Train a network from random initial weights."""
    # build: makes the network, [n, 1, H, W] → [n, classes]. labels: 0 to classes − 1, each
    # present. recipe: optimiser, steps, batch size and loss. seed: of the initial weights and the
    # order of batches. progress: called with the updates done.
    names = tuple(str(c) for c in range(int(labels.max()) + 1))
    n = len(labels)
    samples = SampleSet(images[:, None].astype(np.float32), labels, np.arange(n), names, "image")
    with seeded(seed):
        model = build()
    all_rows = torch.arange(n)[None]
    networks = train_networks([model], samples, all_rows, recipe, seed=seed, progress=progress)
    return taken_network(model, networks).eval().requires_grad_(False)


def outputs(model: nn.Module, images: Float[np.ndarray, "n H W"]) -> Float[np.ndarray, "n k"]:
    """Return the logits of a network."""
    with torch.no_grad():
        return model(torch.tensor(images[:, None], dtype=torch.float32)).numpy()


def accuracy(
    model: nn.Module, images: Float[np.ndarray, "n H W"], labels: Int[np.ndarray, " n"]
) -> float:
    """Return the share of images whose largest logit is their label's."""
    return float((outputs(model, images).argmax(axis=1) == labels).mean())
