"""SGD at rest has the covariance of the Lyapunov equation."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float

from datassay.progress import Progress, silent
from datassay.score import gradient_covariance, steady_state_covariance
from datassay_lab.checks import Agreement, check_args, positive, rising, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, pictures, theory
from datassay_lab.fits import relative_error, track

# A run forgets its start within this many time constants of its slowest direction.
WARM = 5


@dataclass(frozen=True, slots=True)
class StationaryCovariance:
    """Covariance of the weights of SGD at rest, in the Hessian's eigenbasis."""

    shares: Float[np.ndarray, " s"]  # η λ₁ of each run, increasing
    # relative distance of the sample covariance from the Lyapunov equation's.
    error: Float[np.ndarray, " s"]
    # relative distance of the finite-step fixed point from the same.
    exact_error: Float[np.ndarray, " s"]
    # relative distance of the sample covariance from that fixed point.
    exact_distance: Float[np.ndarray, " s"]
    sampled: Float[np.ndarray, "d d"]  # sample covariance at the smallest step
    predicted: Float[np.ndarray, "d d"]  # Σ of H Σ + Σ H = (η/b) Λ there

    @property
    def agreement(self) -> Agreement:
        """The relative error of the Lyapunov covariance at the smallest step."""
        return Agreement("relative error of Σ at the smallest step", float(self.error[0]), 0.05)


@check_args
def stationary_covariance(
    *,
    n_features: Annotated[int, whole(2)] = 4,
    n_samples: int = 60,
    batch_size: Annotated[int, whole()] = 5,
    step_sizes: Annotated[tuple[float, ...], rising(0.0001)] = (0.02, 0.05, 0.1, 0.2, 0.4),
    runs: Annotated[int, whole(2)] = 300,
    records: Annotated[int, whole()] = 200,
    seed: int = 0,
    progress: Progress = silent,
) -> StationaryCovariance:
    """Run SGD on a least-squares loss for long and compare its covariance with theory.

    H Σ + Σ H = (η/b) Λ,   Λ = (1/n) Σ_i ∇ℓ_i ∇ℓ_iᵀ at the minimum of the mean loss

    Args:
        n_features: d, at most 20.
        n_samples: n, more than d; the targets' noise has a deviation that differs by sample.
        batch_size: b, drawn with replacement.
        step_sizes: η λ₁, increasing, below 1.
        runs: independent runs.
        records: time constants of the slowest direction over which each run is recorded.
        seed: of data and batches.
        progress: called after each step size.

    Returns:
        Covariances and their distances.

    Cost: runs · (records + 5) / (η λ_d) steps of b · d products each; some ten seconds.
    Source: S2 class 3, "Advantages of SGD" (intuition only); S1 Prop. 5.1 and eq. 14; Mandt,
    Hoffman and Blei (2017). The solver is the one of sample information
    (`datassay.score`), here for the mean loss, whose scale is η/b. It is the limit
    of small steps: terms of order η are left out, which the exact fixed point of the second moments
    shows. Least squares has noise that grows away from the minimum; the fixed point has it too.
    """
    whole(n_features + 1)("n_samples", n_samples)
    positive(1)("largest step size", step_sizes[-1])
    rng = np.random.default_rng(seed)
    x, residual, values = _problem(rng, n_features, n_samples)
    noise = gradient_covariance(torch.from_numpy(-(x * residual[:, None]).T))
    sampled, limits, fixed_points = [], [], []
    for share in track(step_sizes, progress, "step sizes"):
        rate = share / values[0]
        curvature = torch.from_numpy(values)
        limits.append(steady_state_covariance(noise, curvature, rate / batch_size).numpy())
        fixed_points.append(_fixed_point(x, values, noise.numpy(), rate, batch_size))
        sampled.append(_sample(x, residual, values, rate, batch_size, runs, records, rng))
    pairs = list(zip(sampled, limits, fixed_points, strict=True))
    return StationaryCovariance(
        np.array(step_sizes, float),
        np.array([relative_error(f, limit) for f, limit, _ in pairs]),
        np.array([relative_error(e, limit) for _, limit, e in pairs]),
        np.array([relative_error(f, e) for f, _, e in pairs]),
        sampled[0],
        limits[0],
    )


@add_titles
def stationary_covariance_plots(result: StationaryCovariance) -> Figures:
    """Draw the covariance's entries, both matrices, and the error by step size."""
    entries = axes("Σ of the Lyapunov equation", "covariance of SGD's weights")
    order = np.triu_indices(len(result.sampled))
    add_data(
        entries, result.predicted[order], result.sampled[order], "entries of Σ", mode="markers"
    )
    ends = np.array([result.predicted.min(), result.predicted.max()])
    theory(entries, ends, ends, "equal")
    size = axes("step size, ηλ₁", "relative distance from Lyapunov's Σ", log="xy")
    add_data(size, result.shares, result.error, "SGD", mode="markers")
    theory(size, result.shares, result.exact_error, "exact for finite steps")
    size.update_xaxes(tickvals=result.shares, ticktext=[f"{s:g}" for s in result.shares])
    matrices = np.stack([result.sampled, result.predicted])
    names = ("SGD", "Lyapunov equation")
    return entries, pictures(matrices, names, columns=2, signed=True, side=240), size


def _problem(
    rng: np.random.Generator, d: int, n: int
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"], Float[np.ndarray, " d"]]:
    """Return inputs in the Hessian's eigenbasis, residuals at the minimum, and eigenvalues."""
    x = rng.normal(size=(n, d)) / np.sqrt(np.arange(1, d + 1))
    values, vectors = np.linalg.eigh(x.T @ x / n)
    x = x @ vectors[:, ::-1]
    # Noise that grows with an input, so that Λ is no multiple of H.
    y = rng.normal(size=n) * (0.3 + np.abs(x[:, 0] + x[:, 1]))
    return x, y - x @ np.linalg.lstsq(x, y, rcond=None)[0], values[::-1].copy()


def _fixed_point(
    x: Float[np.ndarray, "n d"],
    values: Float[np.ndarray, " d"],
    noise: Float[np.ndarray, "d d"],
    rate: float,
    batch: int,
) -> Float[np.ndarray, "d d"]:
    """Solve Σ = E (1 − ηĤ) Σ (1 − ηĤ) + η² Λ/b over batches with replacement."""
    d, n = len(values), len(x)
    outer = np.einsum("ni,nj->nij", x, x)
    squares = np.einsum("nij,nkl->ikjl", outer, outer) / n  # E (h ⊗ h) of one sample
    hessian, eye = np.diag(values), np.eye(d)
    mean = np.einsum("ij,kl->ikjl", hessian, hessian)
    pair = squares / batch + (1 - 1 / batch) * mean
    shrink = np.einsum("ij,kl->ikjl", hessian, eye) + np.einsum("ij,kl->ikjl", eye, hessian)
    system = (rate * shrink - rate**2 * pair).reshape(d * d, d * d)
    # Third moments Σ_i r_i x_i (x_iᵀ e) x_iᵀ meet the mean of e, which is 0 at rest.
    return np.linalg.solve(system, (rate**2 / batch * noise).ravel()).reshape(d, d)


def _sample(
    x: Float[np.ndarray, "n d"],
    residual: Float[np.ndarray, " n"],
    values: Float[np.ndarray, " d"],
    rate: float,
    batch: int,
    runs: int,
    records: int,
    rng: np.random.Generator,
) -> Float[np.ndarray, "d d"]:
    """Estimate the second moment of w − w* over runs and time, once the start is forgotten."""
    constant = int(np.ceil(1 / (rate * values[-1])))
    errors, total = np.zeros((runs, len(values))), np.zeros((len(values), len(values)))
    for step in range((WARM + records) * constant):
        batch_idx = rng.integers(len(x), size=(runs, batch))
        rows = x[batch_idx]  # [runs, b, d]
        residuals = np.einsum("rbd,rd->rb", rows, errors) - residual[batch_idx]
        errors -= rate / batch * np.einsum("rb,rbd->rd", residuals, rows)
        if step >= WARM * constant:
            total += errors.T @ errors
    return total / (runs * records * constant)
