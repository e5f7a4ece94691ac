"""Descent with steps ε follows the flow of C + (ε/4)‖∇C‖² more closely than that of C."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp

from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, checked, positive, refuse_if, rising_whole, whole
from datassay_lab.curves import Plot, axes, measured, theory
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

    @property
    def agreement(self) -> Agreement:
        """The larger difference of an exponent from theory."""
        error = max(abs(self.flow_exponent - 1), abs(self.modified_exponent - 2))
        return Agreement("largest difference of the exponents from 1 and 2", error, 0.1)


@checked
def finite_steps(
    *,
    width: Annotated[int, whole()] = 6,
    n_samples: Annotated[int, whole(2)] = 12,
    duration: Annotated[float, positive()] = 4.0,
    steps: Annotated[tuple[int, ...], rising_whole(2, count=3)] = (40, 80, 160, 320, 640, 1280),
    factor: float = 0.25,
    seed: int = 0,
    progress: Progress = silent,
) -> FiniteSteps:
    """Descend the loss of a small tanh network and integrate both flows to high precision.

    ẇ = −∇C̃(w),   C̃ = C + (ε/4)‖∇C‖²,   ∇(‖∇C‖²/4) = ½ ∇²C ∇C

    Args:
        width: hidden units; the network has one input and one output.
        n_samples: of the regression.
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
    """
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, n_samples)
    y = np.sin(2 * x) + 0.1 * rng.normal(size=n_samples)
    first = rng.normal(size=3 * width) / np.repeat([1.0, 1.0, np.sqrt(width)], width)
    sizes, from_flow, from_modified, kept = duration / np.array(steps, float), [], [], []
    for index, (many, size) in enumerate(zip(steps, sizes, strict=True)):
        path = _descend(_gradient(x, y), first, size, many)
        apart = [
            np.linalg.norm(path - _flow(_gradient(x, y), first, f * size, size, many), axis=1)
            for f in (0.0, factor)
        ]
        kept = apart if index == 0 else kept
        from_flow.append(apart[0].max())
        from_modified.append(apart[1].max())
        progress("step sizes", index + 1, len(steps))
    return FiniteSteps(
        sizes,
        np.array(from_flow),
        np.array(from_modified),
        exponent(sizes, np.array(from_flow)),
        exponent(sizes, np.array(from_modified)),
        np.arange(1.0, steps[0] + 1) * sizes[0],
        kept[0],
        kept[1],
    )


def finite_steps_plots(result: FiniteSteps) -> tuple[Plot, ...]:
    """Distances by step size, and along one path."""
    by_size = axes("step size ε", "largest distance from the flow", log="xy")
    share = result.step_sizes / result.step_sizes[-1]
    for index, (errors, power, name) in enumerate((
        (result.from_flow, 1, "flow of C"),
        (result.from_modified, 2, "flow of C + (ε/4)‖∇C‖²"),
    )):
        measured(by_size, result.step_sizes, errors, name, series=1 - index, mode="markers")
        theory(by_size, result.step_sizes, errors[-1] * share**power, f"∝ ε<sup>{power}</sup>")
    way = axes("time kε", "distance from the flow", log="y")
    measured(way, result.times, result.path_from_flow, "flow of C", series=1, mode="lines")
    name = "flow of C + (ε/4)‖∇C‖²"
    measured(way, result.times, result.path_from_modified, name, series=0, mode="lines")
    return (
        Plot("The modified flow is one order closer", by_size,
             "Distance of descent from both flows by step size, with exponents 1 and 2"),
        Plot(f"Along the path, ε = {result.step_sizes[0]:.3g}", way,
             "Distance of descent from both flows over time"),
    )  # fmt: skip


def _gradient(x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"]) -> Gradient:
    """∇C of C = (1/2n) Σ (Σ_j v_j tanh(a_j x + b_j) − y)², also at complex weights."""

    def gradient(weights: np.ndarray) -> np.ndarray:
        a, b, v = weights.reshape(3, -1)
        hidden = np.tanh(np.multiply.outer(x, a) + b)  # [n, width]
        error = (hidden @ v - y) / len(x)
        back = (1 - hidden**2) * np.multiply.outer(error, v)
        return np.concatenate([x @ back, back.sum(0), error @ hidden])

    return gradient


def _descend(
    gradient: Gradient, first: np.ndarray, size: float, steps: int
) -> Float[np.ndarray, "k p"]:
    weights, path = first, []
    for _ in range(steps):
        weights = weights - size * gradient(weights)
        path.append(weights)
        refuse_if(
            not np.linalg.norm(weights) < FAR * np.linalg.norm(first),
            "steps must make descent stable; it diverged. Raise steps.",
        )
    return np.array(path)


def _flow(
    gradient: Gradient, first: np.ndarray, weight: float, size: float, steps: int
) -> Float[np.ndarray, "k p"]:
    """ẇ = −∇(C + weight ‖∇C‖²) at the moments of descent."""

    def speed(_time: float, weights: np.ndarray) -> np.ndarray:
        slope = gradient(weights)
        if weight == 0:
            return -slope
        bent = np.imag(gradient(weights + 1j * TINY * slope)) / TINY  # ∇²C ∇C, exact
        return -slope - 2 * weight * bent

    moments = size * np.arange(1, steps + 1)
    solution = solve_ivp(
        speed, (0, moments[-1]), first, "DOP853", t_eval=moments, rtol=1e-12, atol=1e-13
    )
    return solution.y.T
