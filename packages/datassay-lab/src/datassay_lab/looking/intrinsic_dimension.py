"""Dimension of the manifold that samples lie near, from their two nearest neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from datassay.score import nearest_neighbors

KEPT = 0.9  # share of the ratios; the largest depend on the manifold's edge and curvature


@dataclass(frozen=True, slots=True)
class IntrinsicDimension:
    """An estimated dimension and the line whose slope it is."""

    log_ratio: Float[np.ndarray, " m"]  # ln(r₂ / r₁) of the samples, rising
    log_left: Float[np.ndarray, " m"]  # −ln(1 − F), F the share of samples with a smaller ratio
    dimension: float  # slope of the line through 0


def intrinsic_dimension(x: Float[np.ndarray, "n d"]) -> IntrinsicDimension:
    """The two-nearest-neighbours estimate: r₂ / r₁ has distribution 1 − μ^(−D).

    Args:
        x: [n, d]; duplicates (r₁ = 0) are left out.

    Returns:
        The dimension.

    Cost: that of `nearest_neighbors`.
    Source: Facco et al. (2017), with their cut of the largest tenth; Ansuini et al. (2019) use it
    on networks' layers.
    """
    near = nearest_neighbors(x, 3, search="exact").distance[:, 1:]
    near = near[near[:, 0] > 0]
    ratio = np.sort(np.log(near[:, 1] / near[:, 0]))
    kept = int(KEPT * len(ratio))
    left = -np.log1p(-np.arange(1, kept + 1) / len(ratio))
    log_ratio = ratio[:kept]
    return IntrinsicDimension(log_ratio, left, float(log_ratio @ left / (log_ratio @ log_ratio)))
