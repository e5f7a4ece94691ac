"""How well a score finds the samples known to be wrong."""

import numpy as np
from jaxtyping import Bool, Float

from datassay.ranks import mean_ranks, superiority


def auroc(wrong: Bool[np.ndarray, " n"], score: Float[np.ndarray, " n"]) -> float:
    """Compute the probability that a wrong sample scores above a right one, ties counted half.

    Args:
        wrong: which samples are wrong; both kinds must occur.
        score: higher: more likely wrong.

    Returns:
        The area under the receiver operating characteristic, by the rank-sum statistic.
    """
    return superiority(mean_ranks(score), wrong)
