"""Change of V[X] by each removal, model and Hessian unchanged: only pairs are dropped."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from datassay.score.influence_moments import first_moments


def fixed(rows: Float[Tensor, "n p"]) -> Float[Tensor, " n"]:
    """δ(z) = V[Z] − V[Z∖z] where only the pairs of z are dropped.

    S ← S − a_z,  Σ q ← Σ q − q_z,  tr C² ← tr C² − 2 a_zᵀ C a_z + q_z²

    Args:
        rows: a_z of n ≥ 3 samples, from `pair_influence`.

    Returns:
        δ, squared unit of X.

    Cost: 4 n p² operations.
    Source: METHODS §4, order 1. Deviates from true removal by leaving θ and H as they are.
    """
    n, total, c, q = len(rows), rows.sum(0), rows.T @ rows, rows.square().sum(1)
    _, variance = first_moments(n, total, c, q)
    pairs = (n - 1) * (n - 2)
    norms = (total - rows).square().sum(1)
    mean_without = -(norms - (q.sum() - q)) / pairs
    traces = c.square().sum() - 2 * ((rows @ c) * rows).sum(1) + q.square()
    square_without = (traces - (q.square().sum() - q.square())) / pairs
    return variance - (square_without - mean_without.square())
