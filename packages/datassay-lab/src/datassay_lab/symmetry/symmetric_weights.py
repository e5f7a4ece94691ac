"""Symmetric weights stay symmetric under training with full orbits."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float

from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, one_of, positive, share, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, pictures, theory
from datassay_lab.fits import GROUPS, digit_images, pixel_orders, track

SIDE = 8  # of the digits, pixels
SHOWN = 5  # hidden units whose weights are drawn


@dataclass(frozen=True, slots=True)
class SymmetricWeights:
    """Asymmetry ‖W − PW‖ / ‖W‖ in training, P the mean over the group; 0 is symmetric, unitless."""

    steps: Float[np.ndarray, " t"]  # of gradient descent
    # from symmetric weights, on orbits as set (full by default).
    symmetric_start: Float[np.ndarray, " t"]
    no_orbits: Float[np.ndarray, " t"]  # from symmetric weights, on the images alone
    random_start: Float[np.ndarray, " t"]  # from random weights, on the same orbits as the first
    random_gradient: float  # asymmetry of the gradient at the random weights, on full orbits
    accuracy: float  # training accuracy of the first run, 0 to 1
    # weights of some hidden units of the first run, then of the third.
    filters: Float[np.ndarray, "f 8 8"]

    @property
    def agreement(self) -> Agreement:
        """The largest asymmetry that training gave to symmetric weights."""
        error = float(self.symmetric_start.max())
        return Agreement("largest asymmetry from a symmetric start", error, 1e-10)


@check_args
def symmetric_weights(
    *,
    n_images: Annotated[int, whole()] = 200,
    width: Annotated[int, whole()] = 24,
    group: Annotated[str, one_of(GROUPS)] = "rotations",
    share: Annotated[float, share] = 1.0,
    steps: Annotated[int, whole()] = 400,
    step_size: Annotated[float, positive()] = 1.0,
    seed: int = 0,
    progress: Progress = silent,
) -> SymmetricWeights:
    """Train one hidden layer on digits and their orbits by full-batch descent.

    gW₀ = W₀ for all g  ⇒  gW_T = W_T,   W_T = W₀ − γ Σ_{k=0}^{T−1} ∇L(W_k)

    Args:
        n_images: digits of ten classes.
        width: hidden units, tanh; g moves the pixels of the weights of each.
        group: "rotations" by quarter turns, or cyclic "shifts" (64 times the images).
        share: of each orbit that training uses; the statement needs 1.
        steps: T.
        step_size: γ, of the mean cross-entropy, for both layers.
        seed: of the images, the weights and the parts of orbits.
        progress: called after each of the three trainings.

    Returns:
        Asymmetries, and example weights.

    Cost: 6 · steps · |G| n · width · 74 multiplications; a few seconds with rotations.
    Source: S2 class 4, Corollary 1. Slips in S2: its sum runs over k = 1 … T and must run over
    0 … T − 1; and the second line of its proof drops the factor g of the chain rule, so it would
    show that every gradient is symmetric. It is so at symmetric weights only, by Theorem 1:
    ∇L(W) = ∇L(gW) = g∇L(W). `random_gradient` measures the difference.
    """
    rng = np.random.default_rng(seed)
    images, labels = digit_images(seed, n_images)
    orders = pixel_orders(group, SIDE)
    x = images.reshape(n_images, -1)
    members = rng.permutation(len(orders))[: max(1, round(share * len(orders)))]
    targets = np.repeat(np.eye(10)[labels], len(members), 0)
    orbits = x[:, orders[members]].reshape(-1, SIDE**2), targets
    start = rng.normal(size=(width, SIDE**2)) / SIDE, rng.normal(size=(10, width)) / width**0.5
    symmetric = _group_mean(start[0], orders)
    symmetric = symmetric * np.linalg.norm(start[0]) / np.linalg.norm(symmetric)
    runs = (symmetric, orbits), (symmetric, (x, np.eye(10)[labels])), (start[0], orbits)
    paths = []
    for w, samples in track(runs, progress, "train"):
        paths.append(_descend(w, start[1], samples, steps, step_size))
    asymmetry = [np.array([_asymmetry(w, orders) for w in path]) for path, _ in paths]
    full_orbits = x[:, orders].reshape(-1, SIDE**2), np.repeat(np.eye(10)[labels], len(orders), 0)
    gradient = _gradients(start[0], start[1], *full_orbits)[0]
    examples = [path[-1][:SHOWN].reshape(-1, SIDE, SIDE) for path, _ in (paths[0], paths[2])]
    return SymmetricWeights(
        _marks(steps).astype(float), asymmetry[0], asymmetry[1], asymmetry[2],
        _asymmetry(gradient, orders), paths[0][1], np.concatenate(examples),
    )  # fmt: skip


@add_titles
def symmetric_weights_plots(result: SymmetricWeights) -> Figures:
    """Draw the asymmetry in training, and weights at its end."""
    figure = axes("gradient steps", "asymmetry ‖W − PW‖ / ‖W‖")
    add_data(figure, result.steps, result.random_start, "random start, orbits", series=1)
    add_data(figure, result.steps, result.no_orbits, "symmetric start, no orbits", series=2)
    add_data(figure, result.steps, result.symmetric_start, "symmetric start, orbits")
    theory(figure, result.steps, np.zeros(len(result.steps)), "stays symmetric")
    half = len(result.filters) // 2
    titles = ["symmetric start"] * half + ["random start"] * (len(result.filters) - half)
    return figure, pictures(
        result.filters, titles, columns=half, signed=True, shared=False, side=140
    )


def _descend(
    w: np.ndarray, v: np.ndarray, samples: tuple[np.ndarray, np.ndarray], steps: int, size: float
) -> tuple[list[np.ndarray], float]:
    w, v, marks, path = w.copy(), v.copy(), set(_marks(steps).tolist()), [w.copy()]
    for step in range(1, steps + 1):
        gw, gv = _gradients(w, v, *samples)
        w -= size * gw
        v -= size * gv
        if step in marks:
            path.append(w.copy())
    answers = (np.tanh(samples[0] @ w.T) @ v.T).argmax(axis=1)
    return path, float((answers == samples[1].argmax(axis=1)).mean())


def _marks(steps: int) -> np.ndarray:
    return np.unique(np.linspace(0, steps, 30).round().astype(int))


def _gradients(
    w: np.ndarray, v: np.ndarray, x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    hidden = np.tanh(x @ w.T)
    outputs = hidden @ v.T
    chances = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    error = (chances / chances.sum(axis=1, keepdims=True) - y) / len(x)
    return (error @ v * (1 - hidden**2)).T @ x, error.T @ hidden


def _group_mean(w: np.ndarray, orders: np.ndarray) -> Float[np.ndarray, "M p"]:
    return w[:, orders].mean(axis=1)


def _asymmetry(w: np.ndarray, orders: np.ndarray) -> float:
    return float(np.linalg.norm(w - _group_mean(w, orders)) / np.linalg.norm(w))
