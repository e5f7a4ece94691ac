"""What each removal does to V[X] with the model and its Hessian as they are: pairs drop out."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from datassay.collect.output_geometry import OutputGeometry
from datassay.score.influence_moments import first_moments
from datassay.score.pair_influence import hessian_factor, whiten


def fixed(at: OutputGeometry, ridge: float, damping: float) -> Float[Tensor, " n"]:
    """δ(z) = V[Z] − V[Z∖z] where only the pairs of z go.

    S ← S − a_z,  Σ q ← Σ q − q_z,  tr C² ← tr C² − 2 a_zᵀ C a_z + q_z²

    Args:
        at: the model and its n ≥ 3 samples.
        ridge: of the mean loss.
        damping: added to its Hessian.

    Returns:
        δ, squared unit of X.

    Raises:
        SettingError: the Hessian is singular.

    Cost: 2 n k p² operations for H and 4 n p² for the rest.
    Source: METHODS §4, order 1. Deviates from true removal by leaving θ and H as they are.
    """
    slope, curvature = at.derivatives()
    mean = at.features.curvature(curvature) / len(at)
    a = whiten(hessian_factor(mean, ridge + damping), at.features.gradients(slope))
    n, total, c, q = len(a), a.sum(0), a.T @ a, a.square().sum(1)
    _, variance = first_moments(n, total, c, q)
    pairs = (n - 1) * (n - 2)
    norms = (total - a).square().sum(1)
    mean_without = -(norms - (q.sum() - q)) / pairs
    traces = c.square().sum() - 2 * ((a @ c) * a).sum(1) + q.square()
    square_without = (traces - (q.square().sum() - q.square())) / pairs
    return variance - (square_without - mean_without.square())
