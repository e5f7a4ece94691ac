"""Self-paced weights: the easy samples first, more of them as training goes on."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from datassay.errors import DataError, SettingError


def self_paced_weights(
    losses: Float[np.ndarray, " n"],
    fraction: float = 0.5,
    *,
    threshold: float | None = None,
    is_soft: bool = False,
) -> Float[np.ndarray, " n"]:
    """Weights that leave out the samples of highest loss; call it again as training goes on.

    hard: w_i ∝ 1 where ℓ_i ≤ λ, else 0;  soft: w_i ∝ max(0, 1 − ℓ_i/λ)

    Args:
        losses: [n], at least 0, of the network as it is now; nats or target units.
        fraction: share of the samples to keep, in (0, 1]: λ is the largest loss among them. Raise
            it to 1 during training. Samples of equal loss are kept together.
        threshold: λ itself, > 0, loss unit (Kumar's 1/K); takes the place of fraction.
        is_soft: whether weights fall linearly with the loss instead of at once.

    Returns:
        [n], summing to 1.

    Raises:
        DataError: losses are not [n] finite numbers of at least 0.
        SettingError: fraction is outside (0, 1], or threshold is not positive or keeps no sample.

    Cost: n log n.
    Source: Kumar, Packer and Koller (2010), eq. (3): v_i = 1 where the loss is below 1/K, K lowered
    step by step; the share instead of K is what Jiang et al. (2014) do. Soft: Jiang et al. (2014).
    """
    losses = losses.astype(np.float64)
    if losses.ndim != 1 or losses.size == 0 or not (np.isfinite(losses) & (losses >= 0)).all():
        raise DataError(
            "losses must be [n] finite numbers of at least 0; got shape "
            f"{list(losses.shape)}, {int((~(losses >= 0)).sum())} of them negative or NaN."
        )
    if not 0 < fraction <= 1:
        raise SettingError(f"fraction must lie in (0, 1]; got {fraction}.")
    if threshold is not None and not threshold > losses.min():
        raise SettingError(
            f"threshold must be above the smallest loss, {losses.min():.4g}, so that some sample "
            f"is kept; got {threshold}."
        )
    if threshold is None:
        threshold = float(np.sort(losses)[int(np.ceil(fraction * len(losses))) - 1])
    weight = (losses <= threshold).astype(np.float64)
    if is_soft and threshold > losses.min():
        weight = np.maximum(0, 1 - losses / threshold)
    return weight / weight.sum()
