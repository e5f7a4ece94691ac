"""Gradient descent from zero ends at the solution of least norm; a start adds its null space."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float

from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, one_of, rising, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, theory
from datassay_lab.fits import track

KEPT = 200  # moments of the paths that are kept
ADAM_RATE = 0.01


@dataclass(frozen=True, slots=True)
class MinimumNorm:
    """Limits of descent on an underdetermined least-squares loss."""

    starts: Float[np.ndarray, " s"]  # norm of x₀ over the norm of the least-norm solution
    steps: Float[np.ndarray, " k"]  # steps at which the paths were kept
    norms: Float[np.ndarray, "s k"]  # ‖x_k‖ over that same norm
    null_parts: Float[np.ndarray, "s k"]  # ‖V₂ᵀ x_k‖ over that same norm
    predicted_norms: Float[np.ndarray, " s"]  # of V₂V₂ᵀ x₀ + x_LN
    distances: Float[np.ndarray, " s"]  # ‖x_end − (V₂V₂ᵀ x₀ + x_LN)‖ over the norm of x_LN
    residual: float  # largest ‖A x_end − b‖ / ‖b‖ over the starts

    @property
    def agreement(self) -> Agreement:
        """The largest distance of an end from its prediction."""
        measure = "largest distance from the predicted end, ‖x_LN‖ = 1"
        return Agreement(measure, float(self.distances.max()), 1e-8)


@check_args
def minimum_norm(
    *,
    n_equations: Annotated[int, whole(2)] = 20,
    n_unknowns: int = 60,
    starts: Annotated[tuple[float, ...], rising(0, count=1)] = (0.0, 0.5, 1.0, 2.0),
    steps: Annotated[int, whole(2)] = 3000,
    method: Annotated[str, one_of(("descent", "adam"))] = "descent",
    seed: int = 0,
    progress: Progress = silent,
) -> MinimumNorm:
    """Run descent on ½‖Ax − b‖² from several starts and compare the ends with theory.

    x_∞ = V₂ V₂ᵀ x₀ + x_LN,   x_LN = Aᵀ (A Aᵀ)⁻¹ b,   A = U [Σ₁ 0] [V₁ V₂]ᵀ

    Args:
        n_equations: m, rows of A (samples).
        n_unknowns: n, columns of A (parameters), more than m.
        starts: norms of x₀ over the norm of x_LN, increasing from 0 or more.
        steps: of the method; descent's step size is 1 / σ₁².
        method: "descent", or "adam", which rescales each coordinate and leaves the row space.
        seed: of A, b and the starts' direction.
        progress: called after each start.

    Returns:
        Paths, ends and predictions.

    Cost: starts · steps · m n multiplications; about a second.
    Source: S2 class 3, "Regression: minimum norm solution with GD". S2 writes "m ≫ n" for
    A ∈ R^{m×n} with more parameters than data; it must be n ≫ m, or A Aᵀ has no inverse. Exact.
    """
    whole(n_equations + 1)("n_unknowns", n_unknowns)
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(n_equations, n_unknowns)) / np.sqrt(n_unknowns)
    b = rng.normal(size=n_equations)
    least_norm = a.T @ np.linalg.solve(a @ a.T, b)
    size = np.linalg.norm(least_norm)
    null = np.linalg.svd(a)[2][n_equations:]  # V₂ᵀ, [n − m, n]
    direction = rng.normal(size=n_unknowns)
    direction /= np.linalg.norm(direction)
    moments = np.unique(np.geomspace(1, steps + 1, KEPT).astype(int)) - 1
    paths, ends = [], []
    for start in track(starts, progress, "starts"):
        initial = start * size * direction
        paths.append(_path(a, b, initial, moments, method))
        ends.append(null.T @ (null @ initial) + least_norm)
    path, end = np.array(paths), np.array(ends)  # [s, k, n], [s, n]
    return MinimumNorm(
        np.array(starts, float),
        moments.astype(float),
        np.linalg.norm(path, axis=2) / size,
        np.linalg.norm(path @ null.T, axis=2) / size,
        np.linalg.norm(end, axis=1) / size,
        np.linalg.norm(path[:, -1] - end, axis=1) / size,
        float(np.linalg.norm(path[:, -1] @ a.T - b, axis=1).max() / np.linalg.norm(b)),
    )


@add_titles
def minimum_norm_plots(result: MinimumNorm) -> Figures:
    """Draw the norm and the null-space part along the paths."""
    size = axes("steps of descent + 1", "‖x‖, least norm = 1", log="x")
    null = axes("steps of descent + 1", "null-space part of x, least norm = 1", log="x")
    for index, start in enumerate(result.starts):
        name = f"‖x₀‖ = {start:g}"
        add_data(size, result.steps + 1, result.norms[index], name, series=index, mode="lines")
        add_data(null, result.steps + 1, result.null_parts[index], name, series=index, mode="lines")
        ends = np.array([1.0, result.steps[-1] + 1])
        message = "V₂V₂ᵀx₀ + x_LN" if index == 0 else ""
        theory(size, ends, np.full(2, result.predicted_norms[index]), message)
        # By Pythagoras: x_LN is orthogonal to the null space.
        null_norm = np.sqrt(max(result.predicted_norms[index] ** 2 - 1, 0.0))
        theory(null, ends, np.full(2, null_norm), "V₂ᵀx₀" if index == 0 else "")
    return size, null


def _path(
    a: Float[np.ndarray, "m n"],
    b: Float[np.ndarray, " m"],
    initial: Float[np.ndarray, " n"],
    moments: np.ndarray,
    method: str,
) -> Float[np.ndarray, "k n"]:
    x = torch.tensor(initial)
    rates = {"descent": float(1 / np.linalg.norm(a, 2) ** 2), "adam": ADAM_RATE}
    kind = torch.optim.SGD if method == "descent" else torch.optim.Adam
    optimizer = kind([x], lr=rates[method])
    matrix, target = torch.from_numpy(a), torch.from_numpy(b)
    recorded, path = set(moments.tolist()), []
    for step in range(int(moments[-1]) + 1):
        if step in recorded:
            path.append(x.numpy().copy())
        x.grad = matrix.T @ (matrix @ x - target)
        optimizer.step()
    return np.array(path)
