"""Information about the weights under a smoothing that is not a multiple of the identity."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from datassay.collect.form import removal_chunk
from datassay.errors import SettingError
from datassay.progress import Progress, silent
from datassay.results import column, result
from datassay.score.linear.eigenbasis import Eigenbasis
from datassay.score.linear.removal import removals
from datassay.score.linear.training_run import TrainingRun
from datassay.score.settings import check_batch_size

# Eigenvalues of a covariance below this fraction of its largest count as rounding: they are
# computed to about p · 2⁻⁵², so those above have three correct digits or more.
NULL_FRACTION = 1e-10
# n tr Λ relative to Σ ‖∇ℓ_i‖² at the starting weights: below, every sample is fitted to rounding or
# all gradients are equal.
INTERPOLATED = 1e-20


def gradient_covariance(gradients: Float[Tensor, "p n"]) -> Float[Tensor, "p p"]:
    """Compute the covariance of the per-sample loss gradients, Λ = (1/n) G Gᵀ − g gᵀ.

    Args:
        gradients: G, one column per sample. A term that all share, such as weight decay, drops out.

    Returns:
        Λ, gradient unit squared; rank at most n − 1.

    Cost: 2 p² n operations.
    Source: S1 App. C. Exact.
    """
    centred = gradients - gradients.mean(1, keepdim=True)
    return centred @ centred.T / gradients.shape[1]


def steady_state_covariance(
    noise: Float[Tensor, "p p"], curvature: Float[Tensor, " p"], scale: float
) -> Float[Tensor, "p p"]:
    """Return the covariance Σ of SGD's weights around its minimum, from H Σ + Σ H = scale · Λ.

    Σ_ij = scale Λ_ij / (h_i + h_j)

    Args:
        noise: Λ in the eigenbasis of H.
        curvature: h, eigenvalues of H, the Hessian of the SUM loss; all positive.
        scale: n² η / b for a sum loss of step η and batches of b: SGD then adds n times the batch's
            mean gradient, so its noise is n² Λ / b.

    Returns:
        Σ, weight unit squared.

    Cost: p² values.
    Source: S1 Prop. 5.1 and eq. 14, whose right side (η/b)Λ mixes the sum loss's H with the mean
    gradient's Λ; here it is n²(η/b)Λ. The limit of small steps: terms of order η h are left out.
    """
    return scale * noise / (curvature[:, None] + curvature)


@result
class GaussianNoise:
    """A Gaussian N(0, Σ) whose covariance may be singular, ready for quadratic forms.

    Attributes:
        factor: [r, p], Σ⁺ = factorᵀ factor over the r directions that Σ reaches.
        threshold: eigenvalues of Σ at most this, weight unit squared, count as null.
    """

    factor: Float[Tensor, "r p"]
    threshold: float

    @property
    def rank(self) -> int:
        """Number of directions with noise, r."""
        return len(self.factor)

    def information(self, changes: Float[Tensor, "p g"]) -> Float[Tensor, " g"]:
        """Return ½ Δᵀ Σ⁺ Δ in nats; a lower bound where part of Δ lies outside Σ's range."""
        return 0.5 * (self.factor @ changes).square().sum(0)

    def inside(self, changes: Float[Tensor, "p g"]) -> Float[Tensor, " g"]:
        """Return the squared length of the part of Δ in Σ's range."""
        directions = self.factor / self.factor.norm(dim=1, keepdim=True)
        return (directions @ changes).square().sum(0)


def gaussian_noise(covariance: Float[Tensor, "p p"]) -> GaussianNoise:
    """Return the Gaussian with this covariance, null directions left out."""
    eigenvalues, directions = torch.linalg.eigh(covariance)
    threshold = NULL_FRACTION * float(eigenvalues[-1])
    if not threshold > 0:
        raise SettingError(
            "the smoothing covariance must not be 0, or every change would inform without limit; "
            "got Σ = 0. Smooth with 'functional' or 'isotropic', or set a penalty."
        )
    is_large = eigenvalues > threshold
    return GaussianNoise((directions[:, is_large] / eigenvalues[is_large].sqrt()).T, threshold)


@result
class SteadyState:
    """The SGD noise that an information was measured against.

    Attributes:
        batch_size: b.
        step: η, sum-loss convention; the noise is proportional to η / b.
        outside: [n], in [0, 1]: the share of ‖w − w₋ᵢ‖² outside Σ's range, where SGD has no noise
            and the information would be infinite. It is left out, so the information of such a
            sample is a lower bound.
        rank: directions in Σ's range, of all k networks with averaged outputs.
        n_directions: directions in which training moves the weights at all.
        threshold: [c] weight unit squared: eigenvalues of Σ up to this count as null, one value per
            network (c = k with averaged outputs, else 1).
    """

    batch_size: int
    step: float
    outside: Float[np.ndarray, " n"] = column(
        "share of the change that the noise of SGD does not reach", unit="share"
    )
    rank: int
    n_directions: int
    threshold: tuple[float, ...]


def weight_changes(
    training: TrainingRun, progress: Progress = silent
) -> Iterator[Float[Tensor, "p g c"]]:
    """Yield w − w₋ᵢ of all samples in an orthonormal basis, in chunks [p, g, c]."""
    basis = training.basis
    n = len(training.residual)
    chunk = removal_chunk(training.residual.shape, len(basis.eigenvalues))
    in_range = basis.eigenvalues > 0
    scale = basis.metric[in_range].sqrt()[:, None, None]
    for removal in removals(basis, training.residual, training.run, training.leave_out(1), chunk):
        yield scale * removal.coordinates[in_range]
        progress("leave each sample out", removal.start + removal.coordinates.shape[1], n)


def fisher_information(
    training: TrainingRun, sigma: float, progress: Progress = silent
) -> Float[np.ndarray, " n"]:
    """Return ½ Δᵢᵀ F Δᵢ / σ² of every sample, F the Fisher matrix of the queries."""
    # Source: S1 §5, Σ = σ² F⁻¹. Equal to the functional information of a linearised network.
    # F = (1/m) Σ_j J_jᵀJ_j over the queries, in the coordinates of `weight_changes`.
    basis = training.basis
    in_range = basis.eigenvalues > 0
    rows = basis.query_rows()[:, in_range] / basis.metric[in_range].sqrt()
    fisher = rows.T @ rows / basis.n_queries
    values = [
        torch.einsum("pgc,pgc->g", change, (fisher @ change.flatten(1)).reshape(change.shape))
        for change in weight_changes(training, progress)
    ]
    # F has no negative eigenvalue; the sum may round below 0 for a sample without effect.
    return (torch.cat(values).clamp_min(0) / (2 * sigma**2)).numpy()


def steady_state_information(
    training: TrainingRun, batch_size: int, progress: Progress = silent
) -> tuple[Float[np.ndarray, " n"], SteadyState]:
    """Return ½ Δᵢᵀ Σ⁺ Δᵢ of every sample, and Σ, the stationary covariance of SGD."""
    # Source: S1 Prop. 5.1, with the factor n² of `steady_state_covariance`.
    noises = [gaussian_noise(sigma) for sigma in _solve_steady_state(training, batch_size)]
    information: list[Any] = []
    squared_inside: list[Any] = []
    squared_lengths = []
    for change in weight_changes(training, progress):
        columns = list(zip(noises, change.unbind(2), strict=True))
        information.append(sum(noise.information(w) for noise, w in columns))
        squared_inside.append(sum(noise.inside(w) for noise, w in columns))
        squared_lengths.append(change.square().sum((0, 2)))
    squared_length = torch.cat(squared_lengths)
    share = torch.cat(squared_inside) / torch.where(squared_length > 0, squared_length, 1.0)
    outside = torch.where(squared_length > 0, (1 - share).clamp(0, 1), 0.0)
    state = SteadyState(
        batch_size=batch_size,
        step=training.run.step,
        outside=outside.numpy(),
        rank=sum(noise.rank for noise in noises),
        n_directions=training.basis.rank * len(noises),
        threshold=tuple(noise.threshold for noise in noises),
    )
    return torch.cat(information).numpy(), state


def _solve_steady_state(training: TrainingRun, batch_size: int) -> list[Float[Tensor, "p p"]]:
    """Return SGD's stationary covariance Σ per output column, as `weight_changes`' basis."""
    check_batch_size(batch_size)
    scale = len(training.residual) ** 2 * training.run.step / batch_size
    curvature = _run_curvature(training)
    return [
        steady_state_covariance(gradient_covariance(g), curvature, scale)
        for g in _compute_gradients(training)
    ]


def _run_curvature(training: TrainingRun) -> Float[Tensor, " p"]:
    """Return the eigenvalues of H in the directions that training moves."""
    eigenvalues = training.basis.eigenvalues
    return eigenvalues[eigenvalues > 0] + training.run.penalty


def langevin_information(
    training: TrainingRun, batch_size: int, sigma: float, progress: Progress = silent
) -> Float[np.ndarray, " n"]:
    """Return (b / (n² η σ²)) Δᵢᵀ H Δᵢ of every sample: isotropic noise σ² I."""
    # Source: S1 eq. 15 (Cook 1977), with the factor n² of `steady_state_covariance`.
    check_batch_size(batch_size)
    scale = batch_size / (len(training.residual) ** 2 * training.run.step * sigma**2)
    h = _run_curvature(training)[:, None, None]
    products = [(h * w.square()).sum((0, 2)) for w in weight_changes(training, progress)]
    return (scale * torch.cat(products)).numpy()


def output_information(
    training: TrainingRun, batch_size: int, progress: Progress = silent
) -> Float[np.ndarray, " n"]:
    """Return each sample's information in the outputs, under SGD's stationary noise."""
    # Source: S1 eq. 7 with the noise that SGD leaves in the outputs instead of σ² I. What an
    # input's noise does not reach is left out, as `gaussian_noise` does.
    basis = training.basis
    in_range = basis.eigenvalues > 0
    b = training.residual.shape[1]
    rows = basis.query_rows()[:, in_range] / basis.metric[in_range].sqrt()
    rows = rows.reshape(-1, b, rows.shape[1])  # [m, b, p]
    roots = []  # of each column, [m, b, b]: (J Σ Jᵀ)⁺ = rootᵀ root
    for sigma in _solve_steady_state(training, batch_size):
        noise, axes = torch.linalg.eigh(rows @ sigma @ rows.mT)
        is_reached = noise > NULL_FRACTION * noise[:, -1:].clamp_min(0)
        inverse_root = torch.where(is_reached, noise.clamp_min(0), torch.inf).rsqrt()
        roots.append(inverse_root[:, :, None] * axes.mT)
    values: list = []
    for change in weight_changes(training, progress):
        columns = zip(roots, change.unbind(2), strict=True)
        values.append(sum((root @ (rows @ w)).square().sum((0, 1)) for root, w in columns))
    return (torch.cat(values) / (2 * len(rows))).numpy()


def weight_axes(basis: Eigenbasis, features: Float[Tensor, "rows d"]) -> Float[Tensor, "d p"]:
    """Return U [d, p], orthonormal, with Δw = U Δ for Δ of `weight_changes`."""
    in_range = basis.eigenvalues > 0
    rows = (basis.whole_rows()[..., in_range] * basis.metric[in_range].sqrt()).flatten(0, 1)
    return features.T @ rows / basis.eigenvalues[in_range]


# Σ of the user's own: variances, a covariance, or Δ ↦ Σ⁻¹ Δ.
Covariance = np.ndarray | Tensor | Callable[[np.ndarray], np.ndarray]


def given_information(
    training: TrainingRun,
    features: Float[Tensor, "rows d"],
    covariance: Covariance,
    progress: Progress = silent,
) -> Float[np.ndarray, " n"]:
    """Return ½ Δᵢᵀ Σ⁻¹ Δᵢ of every sample, for a Σ given over the feature columns."""
    # Source: S1 Prop. 3.2, whose Σ is free.
    axes = weight_axes(training.basis, features)
    solve = _make_solver(covariance, features.shape[1])
    values = []
    for change in weight_changes(training, progress):
        columns = axes @ change.flatten(1)  # Δ, [d, g c]
        solved = torch.as_tensor(np.asarray(solve(columns.numpy()), np.float64))
        if solved.shape != columns.shape:
            raise SettingError(
                f"smoothing must return Σ⁻¹ Δ in the shape of Δ, {list(columns.shape)}; got "
                f"{list(solved.shape)}."
            )
        products = (columns * solved).reshape(len(columns), *change.shape[1:])
        values.append(products.sum((0, 2)) / 2)
    information = torch.cat(values)
    lowest = float(information.min())
    if not lowest >= -NULL_FRACTION * float(information.max()):
        raise SettingError(
            f"smoothing must be a positive definite Σ, or nats fall below 0; got {lowest:.3g} nats."
        )
    return information.clamp_min(0).numpy()


def _make_solver(covariance: Covariance, d: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function Δ ↦ Σ⁻¹ Δ for a covariance, variances, or the user's function."""
    if callable(covariance):
        return covariance
    sigma = np.asarray(covariance, np.float64)
    if sigma.shape not in {(d,), (d, d)}:
        raise SettingError(
            f"smoothing as an array must be [{d}] variances or a [{d}, {d}] covariance of the "
            f"linearisation's {d} features; got shape {list(sigma.shape)}."
        )
    if sigma.ndim == 1:
        _require_valid(sigma, bool(np.isfinite(sigma).all() and (sigma > 0).all()))
        return lambda change: change / sigma[:, None]
    is_symmetric = np.isfinite(sigma).all() and np.allclose(sigma, sigma.T, rtol=1e-10, atol=0)
    _require_valid(sigma, bool(is_symmetric))
    factor, failed = torch.linalg.cholesky_ex(torch.from_numpy(sigma))
    _require_valid(sigma, not failed)
    return lambda change: torch.cholesky_solve(torch.from_numpy(change), factor).numpy()


def _require_valid(sigma: np.ndarray, is_valid: bool) -> None:
    """Raise if a covariance is not finite, symmetric and positive definite."""
    if not is_valid:
        raise SettingError(
            "smoothing as an array must be finite, symmetric and positive definite; got one of "
            f"shape {list(sigma.shape)} that is not. Add a small multiple of the identity."
        )


def _compute_gradients(training: TrainingRun) -> list[Float[Tensor, "p n"]]:
    """Return per-sample loss gradients at trained weights; raise if they do not vary."""
    residual = training.residual
    gradients = _gradients_by_column(training.basis, training.fit_outputs() - residual)
    start_gradients = _gradients_by_column(training.basis, -residual)
    noise = sum(float((g - g.mean(1, keepdim=True)).square().sum()) for g in gradients)
    start_squares = sum(float(g.square().sum()) for g in start_gradients)
    if not noise > INTERPOLATED * start_squares:
        raise SettingError(
            "smoothing='sgd' needs a fit with errors left, for SGD has no noise where every sample "
            "is fitted exactly, or all are the same; got Λ = 0. Set weight_decay above 0, or train "
            "for fewer steps."
        )
    return gradients


def _gradients_by_column(
    basis: Eigenbasis, errors: Float[Tensor, "n b c"]
) -> list[Float[Tensor, "p n"]]:
    """Return J_iᵀ e_i of every sample, [p, n] per output column."""
    in_range = basis.eigenvalues > 0
    root = basis.metric[in_range].sqrt()[:, None]
    rows = basis.whole_rows()[:, :, in_range]
    return [root * torch.einsum("nbp,nb->pn", rows, error) for error in errors.unbind(2)]
