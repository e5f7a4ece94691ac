"""The variance of influence without each sample: at fixed weights, to first order, or refitted.

To first order, δ(z) = [V(θ, Z) − V(θ, Z∖z)] − (1/n) g(z)ᵀ H̃⁻¹ ∂V/∂θ, g(z) = ∇L(z) + ridge θ: of
the mean over n − 1 the ridge is (n − 1)/n of that over n. The bracket drops the pairs of z and
takes H on the n − 1 others, exactly: with
K = n H̄/(n−1) + (ridge + damping) I = L Lᵀ, S_z = R Rᵀ, u = L⁻¹ J_zᵀ R and T = ((n−1) I − uᵀu)⁻¹,
H₋z⁻¹ = L⁻ᵀ (I + u T uᵀ) L⁻¹. ∂V/∂θ is one backward pass through G and H for all z.

Refitted, the weights come from one Newton-like step (S4's published recipe) or from a fit to the
minimum; the n models are evaluated together, a batch at a time.

In the code g are gradients, a = L⁻¹ g, C = Σ a aᵀ, `total` = Σ a, q = ‖a‖². V is their moment:
E[X] = −(‖total‖² − Σ q)/pairs, E[X²] = (tr C² − Σ q²)/pairs over pairs of two samples.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from datassay.collect.curvature.output_geometry import OutputGeometry, SharedFeatures
from datassay.errors import SettingError
from datassay.progress import Progress, silent
from datassay.score.influence_moments import first_moments
from datassay.score.linear.panels import invert_each
from datassay.score.variance.pair_influence import hessian_factor, singular_hessian, whiten
from datassay.train.convex import fit_convex

# Values that the products of one chunk of removals with all samples may hold, 64 MiB.
CHUNK_VALUES = 2**23


def adjoint(geometry: OutputGeometry, ridge: float, damping: float) -> Float[Tensor, " n"]:
    """Return δ(z) = V[Z] − V[Z∖z], with H downdated exactly and θ to first order."""
    # Source: METHODS §4, order 2. First order in 1/n for θ alone. Rejected: θ's exact Newton step
    # on the n − 1 others. Spearman's rank correlation with true removal falls from 0.996 to 0.989
    # (n = 500, ridge 1e-2) and from 0.979 to 0.943 (1e-3): it lengthens the steps of high leverage,
    # where V is not linear. With V's second order and ∂V/∂θ without z it would be 0.9999 and 0.994,
    # at the cost of `step`; either alone makes it worse.
    slope, curvature = geometry.derivatives()
    gradients = geometry.features.gradients(slope)
    mean_curvature = geometry.features.curvature(curvature) / len(geometry)
    factor = hessian_factor(mean_curvature, ridge + damping)
    a = whiten(factor, gradients)
    _, variance = first_moments(len(geometry), a.sum(0), a.T @ a, a.square().sum(1))
    training_factor = factor  # of H̃, the Hessian of the training, which has no damping
    if ridge != 0:
        training_factor = hessian_factor(mean_curvature, ridge)
    by_weights = variance_gradient(geometry, factor)  # ∂V/∂θ
    moves = torch.cholesky_solve(by_weights[:, None], training_factor)[:, 0]
    by_moves = removal_gradients(gradients, ridge) @ moves / len(geometry)
    variance_without = _variance_without_each(geometry, gradients, mean_curvature, ridge + damping)
    return variance - variance_without - by_moves


def removal_gradients(gradients: Float[Tensor, "n p"], ridge: float) -> Float[Tensor, "n p"]:
    """Return g(z) = ∇L(z) + ridge θ; at the minimum ridge θ is minus the mean of the gradients."""
    if ridge > 0:
        return gradients - gradients.mean(0)
    return gradients


def variance_gradient(
    geometry: OutputGeometry, factor: Float[Tensor, "p p"]
) -> Float[Tensor, " p"]:
    """Return ∂V/∂θ, through the gradients and through the Hessian; `factor` is L of H."""
    # With P = H⁻¹, B = GᵀG, D = Σ q_z g_z g_zᵀ and M = n (n − 1):
    # ∂E[X]/∂g_z = −2 (P s − P g_z)/M,        ∂E[X]/∂P = −(s sᵀ − B)/M,
    # ∂E[X²]/∂g_z = 4 (P B P g_z − q_z P g_z)/M,  ∂E[X²]/∂P = 2 (B P B − D)/M,
    # and ∂V/∂H = −P (∂V/∂P) P. The softmax's third derivative closes the chain.
    n = len(geometry)
    pairs = n * (n - 1)
    slope, curvature = geometry.derivatives()
    g = geometry.features.gradients(slope)
    a = whiten(factor, g)
    q = a.square().sum(1)
    c = a.T @ a
    total = a.sum(0)
    mean, _ = first_moments(n, total, c, q)
    upper = factor.T  # L⁻ᵀ a = P g: whitened quantities go back by one triangular solve
    by_gradient = 4 * (a @ c - q[:, None] * a) + 4 * mean * (total - a)  # L × its rows, × pairs
    by_gradient = torch.linalg.solve_triangular(upper, by_gradient.T, upper=True).T / pairs
    whitened = 2 * (c @ c - (a * q[:, None]).T @ a) + 2 * mean * (torch.outer(total, total) - c)
    half_solved = torch.linalg.solve_triangular(upper, whitened, upper=True)
    by_hessian = -torch.linalg.solve_triangular(upper, half_solved.T, upper=True) / pairs
    by_slope = geometry.features.along(by_gradient)  # [n, k]
    by_curvature = geometry.features.quadratic(by_hessian) / n  # [n, k, k]
    curvature_gradient = torch.func.grad(lambda f: (by_curvature * geometry.kind.hessian(f)).sum())
    by_output = (curvature @ by_slope[..., None])[..., 0] + curvature_gradient(geometry.outputs)
    return geometry.features.pullback(by_output)


def _variance_without_each(
    geometry: OutputGeometry,
    gradients: Float[Tensor, "n p"],
    mean_curvature: Float[Tensor, "p p"],
    penalty: float,
) -> Float[Tensor, " n"]:
    """Return V(θ, Z∖z) with H on the n − 1 others, for all z."""
    n = len(geometry)
    factor = hessian_factor(mean_curvature * (n / (n - 1)), penalty)
    a = whiten(factor, gradients)
    c = a.T @ a
    total = a.sum(0)
    q = a.square().sum(1)
    root = geometry.kind.root(geometry.outputs)
    variances = []
    size = max(1, CHUNK_VALUES // (geometry.outputs.shape[1] * max(n, a.shape[1])))
    for start in range(0, n, size):
        chunk = slice(start, min(start + size, n))
        rows = root[chunk].mT @ geometry.features.rows(chunk)  # RᵀJ_z, [z, r, p]
        u = whiten(factor, rows.flatten(0, 1)).reshape(rows.shape)
        t_inverse = (n - 1) * torch.eye(u.shape[1], dtype=u.dtype) - u @ u.mT  # T⁻¹
        if not (torch.linalg.eigvalsh(t_inverse) > n * torch.finfo(u.dtype).eps * n).all():
            raise SettingError(singular_hessian(penalty))
        variances.append(_downdate(a, c, total, q, u, invert_each(t_inverse), chunk))
    return torch.cat(variances)


def _downdate(
    a: Float[Tensor, "n p"],
    c: Float[Tensor, "p p"],
    total: Float[Tensor, " p"],
    q: Float[Tensor, " n"],
    u: Float[Tensor, "z r p"],
    t: Float[Tensor, "z r r"],
    chunk: slice,
) -> Float[Tensor, " z"]:
    """Return V without each of a chunk's samples, where H₋z⁻¹ = I + u T uᵀ in whitened axes."""
    n = len(a)
    a_z = a[chunk]
    q_z = q[chunk]
    b = u @ a.T  # uᵀ a_i, [z, r, n]
    b_z = (u @ a_z[..., None])[..., 0]  # [z, r]
    others_sum = total - a_z
    v = (u @ others_sum[..., None])[..., 0]
    y = u @ c - b_z[..., None] * a_z[:, None]  # uᵀ (C − a_z a_zᵀ)
    tyu = t @ (y @ u.mT)
    squares = others_sum.square().sum(1) + (v * (t @ v[..., None])[..., 0]).sum(1)
    diagonal = q + (b * (t @ b)).sum(1)  # a_iᵀ (I + u T uᵀ) a_i, [z, n]
    diagonal[torch.arange(len(a_z)), torch.arange(n)[chunk]] = 0
    pairs = (n - 1) * (n - 2)
    mean = -(squares - diagonal.sum(1)) / pairs
    traces = c.square().sum() - 2 * ((a_z @ c) * a_z).sum(1) + q_z.square()
    traces = traces + 2 * (t * (y @ y.mT)).sum((1, 2)) + (tyu * tyu.mT).sum((1, 2))
    return (traces - diagonal.square().sum(1)) / pairs - mean.square()


def drop_pairs(rows: Float[Tensor, "n p"]) -> Float[Tensor, " n"]:
    """Return δ(z) = V[Z] − V[Z∖z] where only the pairs of z are dropped; `rows` are all a_z."""
    # total ← total − a_z,  Σ q ← Σ q − q_z,  tr C² ← tr C² − 2 a_zᵀ C a_z + q_z²
    # Source: METHODS §4, order 1. Deviates from true removal by leaving θ and H as they are.
    n = len(rows)
    total = rows.sum(0)
    c = rows.T @ rows
    q = rows.square().sum(1)
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
    """Return V[Z∖z] at θ₋z = θ + (H + (ridge + damping) I)⁻¹ g(z)/n, all else computed anew."""
    # Cost: z (4 n k² d² + 2 n p² + p³) operations for a dense last layer, else z times 4 n k p².
    # Source: S4 §4's "leave-one-out" as its code has it (REFERENCE.md), which has no ridge.
    slope, curvature = geometry.derivatives()
    mean = geometry.features.curvature(curvature) / len(geometry)
    factor = hessian_factor(mean, ridge + damping)
    gradients = removal_gradients(geometry.features.gradients(slope), ridge)[removed]
    moves = torch.cholesky_solve(gradients.T, factor).T / len(geometry)
    variances = []
    for batch in _list_batches(geometry, len(removed)):
        outputs = geometry.outputs + geometry.features.outputs(moves[batch])
        variances.append(variances_without(geometry, outputs, removed[batch], ridge + damping))
        progress("remove samples", batch.stop, len(removed))
    return torch.cat(variances)


def refit(
    geometry: OutputGeometry,
    ridge: float,
    damping: float,
    removed: Tensor,
    progress: Progress = silent,
) -> Float[Tensor, " z"]:
    """Return V[Z∖z] at the minimum of the penalised mean loss of the n − 1 others: the truth."""
    if geometry.weights is None:
        raise SettingError(
            "order='retrain' needs a model whose one dense layer trains; other layers train too. "
            "Freeze them (requires_grad_(False)), or take order='adjoint'."
        )
    variances = []
    for batch in _list_batches(geometry, len(removed)):
        keep = geometry.outputs.new_ones(len(removed[batch]), len(geometry))
        keep[torch.arange(len(keep)), removed[batch]] = 0
        fit = fit_convex(
            geometry.features,
            geometry.targets,
            geometry.loss,
            ridge,
            sample_weight=keep,
            start=geometry.weights.expand(len(keep), -1),
        )
        outputs = geometry.features.outputs(fit.weights)
        variances.append(variances_without(geometry, outputs, removed[batch], ridge + damping))
        progress("refit without each sample", batch.stop, len(removed))
    return torch.cat(variances)


def variances_without(
    geometry: OutputGeometry,
    outputs: Float[Tensor, "z n k"],
    removed: Tensor,
    penalty: float,
) -> Float[Tensor, " z"]:
    """Return V[X] of each model over all samples but the one it leaves out."""
    # `outputs` are each model's, `removed` [z] the position of the sample that it leaves out.
    slope = geometry.kind.gradient(outputs, geometry.targets)
    curvature = geometry.kind.hessian(outputs).clone()
    models = torch.arange(len(removed))
    slope[models, removed] = 0
    curvature[models, removed] = 0
    n = len(geometry) - 1
    factor = hessian_factor(geometry.features.curvature(curvature) / n, penalty)
    inverse = torch.cholesky_inverse(factor)
    second_moment = geometry.features.curvature(slope[..., None] * slope[..., None, :])  # GᵀG
    total = geometry.features.pullback(slope)
    rows = map(geometry.features.gradients, slope)
    q = torch.stack([((g @ h) * g).sum(1) for g, h in zip(rows, inverse, strict=True)])  # [z, n]
    pairs = n * (n - 1)
    square = (total * (inverse @ total[..., None])[..., 0]).sum(1)
    mean = -(square - q.sum(1)) / pairs
    product = second_moment @ inverse
    traces = (product * product.mT).sum((1, 2))
    return (traces - q.square().sum(1)) / pairs - mean.square()


def _list_batches(geometry: OutputGeometry, n_removed: int) -> list[slice]:
    """Return slices of the removals whose models are evaluated together, by BATCH_VALUES."""
    p = geometry.features.n_parameters
    n, k = geometry.outputs.shape
    model_values = 6 * p * p + n * k * (k + 4)
    if not isinstance(geometry.features, SharedFeatures):
        model_values += n * k * p
    size = max(1, BATCH_VALUES // model_values)
    starts = range(0, n_removed, size)
    return [slice(start, min(start + size, n_removed)) for start in starts]
