"""Descent with steps ε follows the flow of C + (ε/4)‖∇C‖², by mini-batches its mean over them."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from typing import Annotated

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp

from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, positive, refuse_if, rising_whole, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, theory
from datassay_lab.fits import exponent

# Imaginary step of the exact directional derivative: its square underflows beside any weight.
TINY = 1e-30
# Descent that gets this many times as far as its start has diverged.
FAR = 100.0
Gradient = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, slots=True)
class FiniteSteps:
    """Distance of gradient descent from two flows."""

    step_sizes: Float[np.ndarray, " e"]  # ε, descending
    from_flow: Float[np.ndarray, " e"]  # largest ‖w_k − w(kε)‖ on the way, w(t) the flow of C
    from_modified: Float[np.ndarray, " e"]  # the same for the flow of C + (ε/4)‖∇C‖²
    flow_exponent: float  # of ε in from_flow; theory says 1
    modified_exponent: float  # of ε in from_modified; theory says 2
    times: Float[np.ndarray, " k"]  # moments of the path with the largest step
    path_from_flow: Float[np.ndarray, " k"]  # distance from the flow of C at these moments
    path_from_modified: Float[np.ndarray, " k"]  # distance from the modified flow
    # after one epoch of mini-batches, mean over their orders: distance from the flows of C, of
    # C + (ε/4)‖∇C‖² and of C + (ε/4) mean ‖∇C_b‖²; the exponents of the two smallest steps are
    # 2, 2 and 3 in theory.
    epoch: Float[np.ndarray, "3 e"]
    epoch_exponents: Float[np.ndarray, " 3"]

    @property
    def agreement(self) -> Agreement:
        """The largest difference of an exponent from theory."""
        powers = np.array([self.flow_exponent, self.modified_exponent, *self.epoch_exponents[::2]])
        error = float(np.abs(powers - [1, 2, 2, 3]).max())
        return Agreement("largest difference of the exponents from 1, 2 and 3", error, 0.1)


@check_args
def finite_steps(
    *,
    width: Annotated[int, whole()] = 6,
    n_samples: Annotated[int, whole(2)] = 12,
    batches: Annotated[int, whole(2)] = 3,
    duration: Annotated[float, positive()] = 4.0,
    steps: Annotated[tuple[int, ...], rising_whole(2, count=3)] = (40, 80, 160, 320, 640, 1280),
    factor: float = 0.25,
    seed: int = 0,
    progress: Progress = silent,
) -> FiniteSteps:
    """Run descent on a small tanh network's loss, and integrate the flows to high precision.

    ẇ = −∇C̃(w),   C̃ = C + (ε/4)‖∇C‖²,   ∇(‖∇C‖²/4) = ½ ∇²C ∇C

    By mini-batches, C̃ = C + (ε/4) mean_b ‖∇C_b‖², for the mean over the orders of an epoch.

    Args:
        width: hidden units; the network has one input and one output.
        n_samples: of the regression; a multiple of batches.
        batches: mini-batches of an epoch; all their orders are run.
        duration: time T that all paths cover, ε = T / steps.
        steps: of gradient descent, increasing.
        factor: of ε ‖∇C‖² in the modified loss; theory says 1/4, and no other gives exponent 2.
        seed: of data and first weights.
        progress: called after each step size.

    Returns:
        Distances and exponents.

    Raises:
        SettingError: a parameter is out of range, or descent is unstable.

    Cost: some thousands of gradients per flow; about two seconds.
    Source: S2 class 3, "Discretization in GD"; Barrett and Dherin (2021), Theorem 3.1: a step errs
    by O(ε³), so a path of fixed duration by O(ε²). S2 says that f₁ = −½ ∇∇C ∇C "is exactly the
    gradient of ¼‖∇C‖²"; it is minus that gradient. Its modified flow and loss have the right sign.
    "Discretization in SGD": Smith et al. (2021), eq. 1 and 22, whose error is O(ε³) an epoch.
    """
    refuse_if(
        n_samples % batches,
        f"n_samples must be a multiple of batches; got {n_samples} and {batches}.",
    )
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, n_samples)
    y = np.sin(2 * x) + 0.1 * rng.normal(size=n_samples)
    start = rng.normal(size=3 * width) / np.repeat([1.0, 1.0, np.sqrt(width)], width)
    sizes, from_flow, from_modified, first_distances = duration / np.array(steps, float), [], [], []
    parts = [_gradient(x[b::batches], y[b::batches]) for b in range(batches)]
    flows, epoch = ((parts, 0.0), ([_gradient(x, y)], factor), (parts, factor)), []
    for index, (n_steps, size) in enumerate(zip(steps, sizes, strict=True)):
        path = _descend(_gradient(x, y), start, size, n_steps)
        distances = [
            np.linalg.norm(path - _flow([_gradient(x, y)], start, f * size, size, n_steps), axis=1)
            for f in (0.0, factor)
        ]
        first_distances = distances if index == 0 else first_distances
        from_flow.append(distances[0].max())
        from_modified.append(distances[1].max())
        end = _run_epochs(parts, start, size)
        ends = [_flow(g, start, f * size, batches * size, 1)[-1] for g, f in flows]
        epoch.append(np.linalg.norm(np.array(ends) - end, axis=1))
        progress("step sizes", index + 1, len(steps))
    return FiniteSteps(
        sizes,
        np.array(from_flow),
        np.array(from_modified),
        exponent(sizes, np.array(from_flow)),
        exponent(sizes, np.array(from_modified)),
        np.arange(1.0, steps[0] + 1) * sizes[0],
        first_distances[0],
        first_distances[1],
        np.array(epoch).T,
        np.array([exponent(sizes[-2:], row[-2:]) for row in np.array(epoch).T]),
    )


@add_titles
def finite_steps_plots(result: FiniteSteps) -> Figures:
    """Draw distances by step size, along one path, and after an epoch of mini-batches."""
    names = ("flow of C", "flow of C + (ε/4)‖∇C‖²", "flow of C + (ε/4) mean ‖∇C_b‖²")
    by_size = axes("step size ε", "largest distance from the flow", log="xy")
    by_epoch = axes("step size ε", "distance after one epoch", log="xy")
    paths = (result.from_flow, result.from_modified)
    share = result.step_sizes / result.step_sizes[-1]
    for figure, distances, powers in (
        (by_size, paths, (1, 2)),
        (by_epoch, result.epoch, (2, 2, 3)),
    ):
        for errors, power, name, series in zip(distances, powers, names, (1, 0, 2), strict=False):
            add_data(figure, result.step_sizes, errors, name, series=series, mode="markers")
            theory(figure, result.step_sizes, errors[-1] * share**power, f"∝ ε<sup>{power}</sup>")
    way = axes("time kε", "distance from the flow", log="y")
    add_data(way, result.times, result.path_from_flow, names[0], series=1, mode="lines")
    add_data(way, result.times, result.path_from_modified, names[1], series=0, mode="lines")
    return by_size, way, by_epoch


def _gradient(x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"]) -> Gradient:
    """Return a function for ∇C of C = (1/2n) Σ (Σ_j v_j tanh(a_j x + b_j) − y)², complex too."""

    def gradient(weights: np.ndarray) -> np.ndarray:
        a, b, v = weights.reshape(3, -1)
        hidden = np.tanh(np.multiply.outer(x, a) + b)  # [n, width]
        error = (hidden @ v - y) / len(x)
        hidden_slope = (1 - hidden**2) * np.multiply.outer(error, v)
        return np.concatenate([x @ hidden_slope, hidden_slope.sum(0), error @ hidden])

    return gradient


def _descend(
    gradient: Gradient, start: np.ndarray, size: float, steps: int
) -> Float[np.ndarray, "k p"]:
    weights, path = start, []
    for _ in range(steps):
        weights = weights - size * gradient(weights)
        path.append(weights)
        refuse_if(
            not np.linalg.norm(weights) < FAR * np.linalg.norm(start),
            "steps must make descent stable; it diverged. Raise steps.",
        )
    return np.array(path)


def _run_epochs(parts: list[Gradient], start: np.ndarray, size: float) -> Float[np.ndarray, " p"]:
    """Return the weights after a step by each part of the samples, mean over the parts' orders."""
    ends = []
    for order in permutations(parts):
        weights = start
        for gradient in order:
            weights = weights - size * gradient(weights)
        ends.append(weights)
    return np.mean(ends, axis=0)


def _flow(
    parts: list[Gradient], start: np.ndarray, weight: float, size: float, steps: int
) -> Float[np.ndarray, "k p"]:
    """Solve ẇ = −∇(mean C_b + weight mean ‖∇C_b‖²) for the moments of descent."""

    def velocity(_time: float, weights: np.ndarray) -> np.ndarray:
        slopes = [gradient(weights) for gradient in parts]
        if weight == 0:
            return -np.mean(slopes, axis=0)
        curvature = [  # ∇²C_b ∇C_b, exact
            np.imag(gradient(weights + 1j * TINY * slope)) / TINY
            for gradient, slope in zip(parts, slopes, strict=True)
        ]
        return -np.mean(slopes, axis=0) - 2 * weight * np.mean(curvature, axis=0)

    moments = size * np.arange(1, steps + 1)
    solution = solve_ivp(
        velocity, (0, moments[-1]), start, "DOP853", t_eval=moments, rtol=1e-12, atol=1e-13
    )
    return solution.y.T
