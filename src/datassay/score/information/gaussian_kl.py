"""Sample information with SGD's noise recomputed without the sample (unequal covariances)."""

from typing import NamedTuple, Unpack

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from datassay.collect.linearization import Linearization
from datassay.errors import SettingError
from datassay.progress import Progress, silent
from datassay.results import Tabular, column, result, sample_ids
from datassay.score.information.weights import (
    INTERPOLATED,
    NULL_FRACTION,
    gradient_covariance,
    steady_state_covariance,
)
from datassay.score.linear.eigenbasis import check_not_null, null_to_zero
from datassay.score.linear.training_run import Dynamics, TrainingRun, filter_values, training_run
from datassay.score.settings import Run, check_batch_size


def gaussian_kl(
    mean: Float[Tensor, " p"],
    covariance: Float[Tensor, "p p"],
    other_mean: Float[Tensor, " p"],
    other_covariance: Float[Tensor, "p p"],
) -> tuple[float, float]:
    """Compute KL(N(μ, Σ) ‖ N(μ′, Σ′)) in nats, split into parts of the means and the covariances.

    ½ δᵀ Σ′⁻¹ δ  and  ½ (tr(Σ′⁻¹ Σ) + ln |Σ′| − ln |Σ| − p),  δ = μ − μ′

    Args:
        mean: μ.
        covariance: Σ.
        other_mean: μ′.
        other_covariance: Σ′.

    Returns:
        Both parts, neither negative; infinite where Σ or Σ′ is singular relative to its largest
        eigenvalue.

    Cost: about 20 p³ operations.
    Source: S1 eq. 21. Exact.
    """
    values, _ = torch.linalg.eigh(covariance)
    other_values, axes = torch.linalg.eigh(other_covariance)
    if min(_reciprocal_condition(values), _reciprocal_condition(other_values)) <= NULL_FRACTION:
        return float("inf"), float("inf")
    shift = (axes.T @ (mean - other_mean)).square() / other_values
    spread = ((axes.T @ covariance) * axes.T).sum(1) / other_values
    shape = spread.sum() + other_values.log().sum() - values.log().sum() - len(values)
    return float(shift.sum()) / 2, max(0.0, float(shape) / 2)


def _reciprocal_condition(eigenvalues: Float[Tensor, " p"]) -> float:
    """Return the smallest over the largest of ascending eigenvalues; 0 if none is > 0."""
    if eigenvalues[-1] > 0:
        return float(eigenvalues[0] / eigenvalues[-1])
    return 0.0


@result
class KlInformation(Tabular):
    """KL divergence between SGD's weights with and without each sample, one row per sample.

    Attributes:
        information: [n], nats, the sum of the two parts. Infinite where SGD without the sample has
            no noise in a direction that it has with it.
        shift: [n], nats: ½ Δᵀ Σ₋ᵢ⁻¹ Δ.
        shape: [n], nats: the part of the covariance's change.
        ids: [n], the samples' ids.
        batch_size: b.
        step: η on all samples, sum-loss convention.
    """

    information: Float[np.ndarray, " n"] = column(
        "the sum of shift and shape", unit="nats", sign="high: more informative; never < 0"
    )
    shift: Float[np.ndarray, " n"] = column(
        "the part of the information that the weights' change has",
        unit="nats",
        joint="information_shift",
    )
    shape: Float[np.ndarray, " n"] = column(
        "the part that the change of SGD's noise has", unit="nats", joint="information_shape"
    )
    ids: np.ndarray = sample_ids()
    batch_size: int
    step: float


def kl_information(
    lin: Linearization, *, batch_size: int, progress: Progress = silent, **run: Unpack[Run]
) -> KlInformation:
    """Compute KL(p(w | S) ‖ p(w | S₋ᵢ)) of SGD's steady states, each with its own covariance.

    `sample_information(smoothing="sgd")` holds Σ constant when a sample is removed; this recomputes
    it, for few weights.

    Args:
        lin: the linearisation.
        batch_size: b, of both runs.
        progress: called with (step, samples done, samples in all).
        run: lr, steps, weight_decay, reduction and dynamics of `leave_one_out`.

    Returns:
        Nats. With averaged outputs the sum over k networks of one output each.

    Raises:
        SettingError: batch_size is not a whole number of at least 1, SGD's noise on all samples
            does not reach every direction of the weights, or a setting is out of range.
        ModelError: the kernel is 0: the outputs depend on no weight.

    Cost: n times (2 n b p² + (10 + 30 c) p³) operations: for p up to a few hundred.
    Source: S1 Prop. 5.1 and eq. 21, before its assumption that Σ₋ᵢ = Σ. The limit of small steps.
    """
    check_batch_size(batch_size)
    return divergences(training_run(lin, **run), lin.ids, batch_size, progress)


def divergences(
    training: TrainingRun, ids: np.ndarray, batch_size: int, progress: Progress = silent
) -> KlInformation:
    """Return the KL information of every sample, for checked settings."""
    check_not_null(training.basis)
    in_range = training.basis.eigenvalues > 0
    rows = training.basis.whole_rows()[:, :, in_range] * training.basis.metric[in_range].sqrt()
    full = _solve_steady_state(rows, training.residual, training.run, batch_size)
    if full is None or any(
        _reciprocal_condition(torch.linalg.eigvalsh(covariance)) <= NULL_FRACTION
        for covariance in full.covariances
    ):
        raise SettingError(
            f"SGD's noise must reach every direction of the weights, or the divergence is "
            f"infinite; {len(ids)} samples do not reach {rows.shape[2]} directions. Use "
            "smoothing='sgd' of sample_information, more samples or fewer features."
        )
    parts = _compute_divergences(training, rows, full, batch_size, progress)
    return KlInformation(
        information=parts.sum(1),
        shift=parts[:, 0],
        shape=parts[:, 1],
        ids=ids,
        batch_size=batch_size,
        step=training.run.step,
    )


class _Gaussians(NamedTuple):
    """SGD's steady state: a Gaussian of the weights for each of c columns of outputs."""

    means: Float[Tensor, "p c"]
    covariances: list[Float[Tensor, "p p"]]


def _compute_divergences(
    training: TrainingRun,
    rows: Float[Tensor, "n b p"],
    full: _Gaussians,
    batch_size: int,
    progress: Progress,
) -> Float[np.ndarray, "n 2"]:
    """Return each sample's divergence, split into parts of means and covariances, [n, 2]."""
    # `full` is SGD's steady state with all samples.
    n = len(rows)
    run = training.leave_out(1)
    parts = np.zeros((n, 2))
    for i in range(n):
        keep = torch.arange(n) != i
        state = _solve_steady_state(rows[keep], training.residual[keep], run, batch_size)
        if state is None:
            parts[i] = np.inf
            continue
        columns = zip(full.means.T, full.covariances, state.means.T, state.covariances, strict=True)
        parts[i] = np.sum([gaussian_kl(*column) for column in columns], 0)
        progress("leave each sample out", i + 1, n)
    return parts


def _solve_steady_state(
    rows: Float[Tensor, "s b p"], residual: Float[Tensor, "s b c"], run: Dynamics, batch_size: int
) -> _Gaussians | None:
    """Return SGD's stationary Gaussian on some samples; None if it has no noise or no bound."""
    # No bound: a direction with neither data nor penalty. No noise: every sample fitted exactly.
    flat = rows.flatten(0, 1)
    eigenvalues, axes = torch.linalg.eigh(flat.T @ flat)
    eigenvalues = null_to_zero(eigenvalues)
    curvature = eigenvalues + run.penalty
    if not curvature[0] > 0:
        return None
    rotated = rows @ axes  # [s, b, p]
    projected = rotated.flatten(0, 1).T @ residual.flatten(0, 1)
    weights = filter_values(eigenvalues, run)[:, None] * projected
    errors = rotated @ weights - residual
    scale = len(rows) ** 2 * run.step / batch_size
    covariances = []
    for error, start_error in zip(errors.unbind(2), residual.unbind(2), strict=True):
        noise = gradient_covariance(torch.einsum("nbp,nb->pn", rotated, error))
        start_gradients = torch.einsum("nbp,nb->pn", rotated, start_error)
        start_noise = start_gradients.square().sum() / len(rows)
        if not noise.trace() > INTERPOLATED * start_noise:
            return None
        covariances.append(axes @ steady_state_covariance(noise, curvature, scale) @ axes.T)
    return _Gaussians(axes @ weights, covariances)
