"""V[X] without each sample, everything recomputed at the weights without that sample.

The weights come from one Newton-like step (S4's published recipe) or from a fit to the minimum; the
n models are evaluated together, a batch at a time.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from datassay.collect.curvature.output_geometry import OutputGeometry, SharedFeatures
from datassay.collect.curvature.output_loss import loss_derivatives
from datassay.errors import SettingError
from datassay.progress import Progress, silent
from datassay.score.influence_moments import first_moments
from datassay.score.variance.pair_influence import hessian_factor
from datassay.train.convex import fit_convex


def fixed(rows: Float[Tensor, "n p"]) -> Float[Tensor, " n"]:
    """δ(z) = V[Z] − V[Z∖z] where only the pairs of z are dropped."""
    # S ← S − a_z,  Σ q ← Σ q − q_z,  tr C² ← tr C² − 2 a_zᵀ C a_z + q_z²
    # Source: METHODS §4, order 1. Deviates from true removal by leaving θ and H as they are.
    n, total, c, q = len(rows), rows.sum(0), rows.T @ rows, rows.square().sum(1)
    _, variance = first_moments(n, total, c, q)
    pairs = (n - 1) * (n - 2)
    norms = (total - rows).square().sum(1)
    mean_without = -(norms - (q.sum() - q)) / pairs
    traces = c.square().sum() - 2 * ((rows @ c) * rows).sum(1) + q.square()
    square_without = (traces - (q.square().sum() - q.square())) / pairs
    return variance - (square_without - mean_without.square())


# Values that one batch of models may hold, 256 MiB.
BATCH_VALUES = 2**25


def step(
    geometry: OutputGeometry,
    ridge: float,
    damping: float,
    removed: Tensor,
    progress: Progress = silent,
) -> Float[Tensor, " z"]:
    """V[Z∖z] at θ₋z = θ + (H + (ridge + damping) I)⁻¹ ∇L(z)/n, everything recomputed.

    Args:
        geometry: the model and its n ≥ 3 samples.
        ridge: of the mean loss.
        damping: added to its Hessian.
        removed: [z] positions of the samples to remove, one at a time.
        progress: called with (step, removals done, removals in all).

    Returns:
        V without each, squared unit of X.

    Raises:
        SettingError: a Hessian is singular.

    Cost: z (4 n k² d² + 2 n p² + p³) operations for a dense last layer, z times 4 n k p² otherwise.
    Source: S4 §4's "leave-one-out" as its code has it (REFERENCE.md). Deviates nowhere.
    """
    slope, curvature = geometry.derivatives()
    mean = geometry.features.curvature(curvature) / len(geometry)
    factor = hessian_factor(mean, ridge + damping)
    gradients = geometry.features.gradients(slope)[removed]
    moves = torch.cholesky_solve(gradients.T, factor).T / len(geometry)
    variances = []
    for part in _batches(geometry, len(removed)):
        outputs = geometry.outputs + geometry.features.outputs(moves[part])
        variances.append(variances_without(geometry, outputs, removed[part], ridge + damping))
        progress("remove samples", part.stop, len(removed))
    return torch.cat(variances)


def refit(
    geometry: OutputGeometry,
    ridge: float,
    damping: float,
    removed: Tensor,
    progress: Progress = silent,
) -> Float[Tensor, " z"]:
    """V[Z∖z] at the minimum of the penalised mean loss of the n − 1 others: the truth."""
    if geometry.weights is None:
        raise SettingError(
            "order='retrain' needs a model whose one dense layer trains; other layers train too. "
            "Freeze them (requires_grad_(False)), or take order='adjoint'."
        )
    variances = []
    for part in _batches(geometry, len(removed)):
        keep = geometry.outputs.new_ones(len(removed[part]), len(geometry))
        keep[torch.arange(len(keep)), removed[part]] = 0
        fit = fit_convex(
            geometry.features,
            geometry.targets,
            geometry.loss,
            ridge,
            sample_weight=keep,
            start=geometry.weights.expand(len(keep), -1),
        )
        outputs = geometry.features.outputs(fit.weights)
        variances.append(variances_without(geometry, outputs, removed[part], ridge + damping))
        progress("refit without each sample", part.stop, len(removed))
    return torch.cat(variances)


def variances_without(
    geometry: OutputGeometry,
    outputs: Float[Tensor, "z n k"],
    removed: Tensor,
    penalty: float,
) -> Float[Tensor, " z"]:
    """V[X] of each model over all samples but the one it leaves out."""
    slope, curvature = loss_derivatives(outputs, geometry.targets, geometry.loss)
    models = torch.arange(len(removed))
    slope[models, removed] = 0
    curvature = curvature.clone()
    curvature[models, removed] = 0
    n = len(geometry) - 1
    inverse = torch.cholesky_inverse(
        hessian_factor(geometry.features.curvature(curvature) / n, penalty)
    )
    second = geometry.features.curvature(slope[..., None] * slope[..., None, :])  # GᵀG
    total = geometry.features.pullback(slope)
    rows = map(geometry.features.gradients, slope)
    q = torch.stack([((g @ h) * g).sum(1) for g, h in zip(rows, inverse, strict=True)])  # [z, n]
    pairs = n * (n - 1)
    square = (total * (inverse @ total[..., None])[..., 0]).sum(1)
    mean = -(square - q.sum(1)) / pairs
    product = second @ inverse
    traces = (product * product.mT).sum((1, 2))
    return (traces - q.square().sum(1)) / pairs - mean.square()


def _batches(geometry: OutputGeometry, n_removed: int) -> list[slice]:
    p, (n, k) = geometry.features.n_parameters, geometry.outputs.shape
    each = 6 * p * p + n * k * (k + 4)
    each += 0 if isinstance(geometry.features, SharedFeatures) else n * k * p
    size = max(1, BATCH_VALUES // each)
    starts = range(0, n_removed, size)
    return [slice(start, min(start + size, n_removed)) for start in starts]
