"""An invariant loss has no slope along its symmetry."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float

from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, positive, rising, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, theory
from datassay_lab.fits import exponent


@dataclass(frozen=True, slots=True)
class InvariantLoss:
    """Slopes along two symmetries, rotation and scale, and what descent conserves."""

    # numbers of equal angles over which the loss was averaged, the last as set.
    angles: Float[np.ndarray, " q"]
    # |⟨∇L, ∂_αU_αw⟩| / (‖∇L‖ ‖∂_αU_αw‖), largest over random weights.
    rotation_slope: Float[np.ndarray, " q"]
    scale_slope: float  # the same of a ReLU network under w₁ → e^α w₁, w₂ → e^−α w₂
    rates: Float[np.ndarray, " e"]  # step sizes of descent on the ReLU network
    # largest |Δ(‖w₁‖² − w₂²)| over the units after the same time, rate · steps.
    drift: Float[np.ndarray, " e"]
    drift_exponent: float  # a of drift ∝ rateᵃ; 1 for gradient descent
    path: Float[np.ndarray, "t 2"]  # w under descent on the rotation-averaged loss
    plain_path: Float[np.ndarray, "t 2"]  # the same without averaging

    @property
    def agreement(self) -> Agreement:
        """The larger cosine of the gradient with a symmetry, where 0 is theory."""
        slope = max(float(self.rotation_slope[-1]), self.scale_slope)
        return Agreement("larger |cosine| of ∇L with a symmetry", slope, 1e-10)


@check_args
def invariant_loss(
    *,
    n_samples: Annotated[int, whole(2)] = 40,
    n_angles: Annotated[int, whole()] = 256,
    width: Annotated[int, whole()] = 10,
    rates: Annotated[tuple[float, ...], rising(1e-05)] = (0.001, 0.003, 0.01, 0.03),
    time: Annotated[float, positive()] = 6.0,
    seed: int = 0,
    progress: Progress = silent,
) -> InvariantLoss:
    """Measure slopes of two invariant losses: averaged over rotations, and a ReLU network's.

    L(U_α w) = L(w)  ⇒  ⟨∇L(w), ∂_α U_α w⟩ = 0

    rotation: L(w) = mean_i (1/2π) ∫ ½(tanh⟨w, R_θ x_i⟩ − y_i)² dθ, w in the plane;
    scale: f(x) = Σ_j w₂ⱼ max(0, w₁ⱼᵀx), so that ‖w₁ⱼ‖² − w₂ⱼ² rests under gradient flow.

    Args:
        n_samples: of each problem, normal inputs.
        n_angles: of the average over rotations; equal angles are exact up to an error that falls
            exponentially.
        width: hidden units of the ReLU network.
        rates: ε of gradient descent, increasing.
        time: ε times the steps, the same for every ε.
        seed: of the samples and weights.
        progress: called after the slopes and after each rate.

    Returns:
        Slopes and drifts.

    Cost: time / ε gradients for each ε; about a second.
    Source: S2 class 4, "Effect on the gradient descent". Slip in S2: the flow is dw/dt = −∇L.
    The scale symmetry: Du, Hu and Lee (2018). Descent with steps ε drifts by
    ε² (‖∂L/∂w₁‖² − (∂L/∂w₂)²) a step, so by O(ε) after a fixed time.
    """
    positive(time)("largest of rates", rates[-1])
    rng = np.random.default_rng(seed)
    x, y = rng.normal((0.75, 0.25), 0.5, (n_samples, 2)), rng.choice([-0.8, 0.8], n_samples)
    angles = sorted({*(2**k for k in range(9) if 2**k < n_angles), n_angles})
    starts = rng.normal(size=(10, 2))
    slopes = [max(_rotation_slope(w, x, y, q) for w in starts) for q in angles]
    paths = [[starts[0]] for _ in (n_angles, 1)]
    for path, q in zip(paths, (n_angles, 1), strict=True):
        for _ in range(300):
            path.append(path[-1] - 0.2 * _plane_gradient(path[-1], x, y, q))
    inputs = rng.normal(size=(n_samples, 5))
    target = np.sin(inputs[:, 0]) + 0.5 * inputs[:, 1]
    start1, start2 = rng.normal(size=(width, 5)) / 5**0.5, rng.normal(size=width) / width**0.5
    # Largest over the units; the symmetry moves (w₁, w₂) along (w₁, −w₂).
    g1, g2 = _relu_gradients(start1, start2, inputs, target)
    slope_along = (g1 * start1).sum(axis=1) - g2 * start2
    sizes = np.hypot(np.linalg.norm(g1, axis=1), g2)
    lengths = np.hypot(np.linalg.norm(start1, axis=1), start2)
    scale_slope = float((np.abs(slope_along) / (sizes * lengths)).max())
    progress("slopes", 1, 1 + len(rates))
    drift = []
    for index, rate in enumerate(rates):
        w1, w2 = start1.copy(), start2.copy()
        for _ in range(round(time / rate)):
            g1, g2 = _relu_gradients(w1, w2, inputs, target)
            w1, w2 = w1 - rate * g1, w2 - rate * g2
        conserved = np.square(start1).sum(axis=1) - start2**2
        drift.append(float(np.abs(np.square(w1).sum(axis=1) - w2**2 - conserved).max()))
        progress("descend", index + 2, 1 + len(rates))
    steps = np.array(rates, float)
    return InvariantLoss(
        np.array(angles, float), np.array(slopes), scale_slope, steps, np.array(drift),
        exponent(steps, np.array(drift)), np.array(paths[0]), np.array(paths[1]),
    )  # fmt: skip


@add_titles
def invariant_loss_plots(result: InvariantLoss) -> Figures:
    """Draw the slope by the number of angles, drift by the rate, and paths in the plane."""
    slope = axes("equal angles in the average", "|cosine| of ∇L with the rotation", log="xy")
    add_data(slope, result.angles, np.maximum(result.rotation_slope, 1e-18), "rotated samples")
    theory(slope, result.angles, np.full(len(result.angles), 1e-16), "0 up to rounding")
    paths = axes("weight 1", "weight 2")
    add_data(
        paths,
        result.plain_path[:, 0],
        result.plain_path[:, 1],
        "samples as they are",
        series=1,
        mode="lines",
    )
    add_data(paths, result.path[:, 0], result.path[:, 1], "rotation-averaged", mode="lines")
    reach = 1.3 * max(float(np.abs(result.path).max()), 1e-3)
    start = result.path[0] / np.linalg.norm(result.path[0])
    theory(paths, [0, reach * start[0]], [0, reach * start[1]], "ray of the start")
    paths.update_yaxes(scaleanchor="x", scaleratio=1)
    drift = axes("step size ε", "drift of ‖w<sub>1</sub>‖² − w<sub>2</sub>²", log="xy")
    add_data(drift, result.rates, result.drift, "descent for the same time", mode="markers")
    theory(drift, result.rates, result.drift[0] * result.rates / result.rates[0], "∝ ε")
    return slope, paths, drift


def _plane_gradient(w: np.ndarray, x: np.ndarray, y: np.ndarray, q: int) -> np.ndarray:
    theta = 2 * np.pi * np.arange(q) / q
    rotation = np.array([[np.cos(theta), -np.sin(theta)], [np.sin(theta), np.cos(theta)]])
    rotated = np.einsum("abq,nb->qna", rotation, x).reshape(-1, 2)
    out = np.tanh(rotated @ w)
    return ((out - np.tile(y, q)) * (1 - out**2)) @ rotated / len(rotated)


def _rotation_slope(w: np.ndarray, x: np.ndarray, y: np.ndarray, q: int) -> float:
    gradient, tangent = _plane_gradient(w, x, y, q), np.array([-w[1], w[0]])
    return float(abs(gradient @ tangent) / np.linalg.norm(gradient) / np.linalg.norm(tangent))


def _relu_gradients(
    w1: np.ndarray, w2: np.ndarray, x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    hidden = np.maximum(x @ w1.T, 0)
    error = (hidden @ w2 - y) / len(x)
    return (error[:, None] * (hidden > 0) * w2).T @ x, hidden.T @ error
