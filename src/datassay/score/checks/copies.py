"""Which of several equal samples go, and which of them disagree."""

import numpy as np
from jaxtyping import Bool, Float, Int

ROUNDING = 1e-3  # of a target's standard deviation: no other target


def is_copy(
    copies: Int[np.ndarray, " n"], y: np.ndarray, suspicion: Float[np.ndarray, " n"] | None = None
) -> Bool[np.ndarray, " n"]:
    """Return which samples repeat one that stays: the least suspect of those that share a number.

    Where those that share a number have different targets all stay, as one may be wrong.
    """
    if suspicion is None:
        suspicion = np.zeros(len(y))
    else:
        suspicion = np.nan_to_num(suspicion)
    order = np.lexsort((suspicion, copies))  # stable: else the first stays
    is_first = np.diff(copies[order], prepend=-1) != 0
    result = np.zeros(len(y), bool)
    result[order[~is_first]] = True
    return result & ~differ(copies, y)


def differ(groups: Int[np.ndarray, " n"], y: np.ndarray) -> Bool[np.ndarray, " n"]:
    """Return which samples share a number with a sample of another target, beyond rounding."""
    targets = y.reshape(len(y), -1)
    number = np.unique(groups, return_inverse=True)[1]
    low, high = (np.full((len(y), targets.shape[1]), sign * np.inf) for sign in (1, -1))
    np.minimum.at(low, number, targets)
    np.maximum.at(high, number, targets)
    is_whole = y.dtype.kind in "iub"
    rounding = 0.0
    if not is_whole:
        rounding = ROUNDING * targets.std(0)
    is_mixed = np.any((high - low > rounding) & np.isfinite(low), axis=1)
    return np.take(is_mixed, number)
