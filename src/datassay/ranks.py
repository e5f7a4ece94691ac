"""Ranks with ties at their mean, and correlations: SciPy's, whose import costs half a second."""

from bisect import bisect_right

import numpy as np
from jaxtyping import Bool, Float, Shaped


def mean_ranks(values: Shaped[np.ndarray, "..."], axis: int = -1) -> Float[np.ndarray, "..."]:
    """Return ranks from 1 along an axis, ties at their mean; NaN along lines that hold one."""
    if values.size == 0:
        return np.empty(values.shape)
    return np.apply_along_axis(_rank_line, axis, values)


def _rank_line(line: Shaped[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    if np.isnan(line).any():
        return np.full(len(line), np.nan)
    _, code, counts = np.unique(line, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[code]


def rank_correlation(
    ours: Float[np.ndarray, "... n"], others: Float[np.ndarray, "... n"]
) -> Float[np.ndarray, "..."]:
    """Compute Spearman's rank correlation along the last axis, ties at their mean rank.

    Args:
        ours: values.
        others: of the same samples; further axes broadcast.

    Returns:
        In [-1, 1]; NaN where all values are equal.

    Cost: a sort per row.
    Source: Spearman (1904). Exact.
    """
    return correlation(mean_ranks(ours), mean_ranks(others))


def correlation(
    ours: Float[np.ndarray, "... n"], theirs: Float[np.ndarray, "... n"]
) -> Float[np.ndarray, "..."]:
    """Compute Pearson's correlation along the last axis; NaN where all values are equal."""
    centred = [v - v.mean(-1, keepdims=True) for v in (ours, theirs)]
    lengths = [np.sqrt((c * c).sum(-1)) for c in centred]
    product = (centred[0] * centred[1]).sum(-1)
    with np.errstate(invalid="ignore"):
        return np.asarray(product / (lengths[0] * lengths[1]))


def superiority(ranks: Float[np.ndarray, " n"], mask: Bool[np.ndarray, " n"]) -> float:
    """Return P(a value in the mask > one outside), ties count half; ranks: of all, [n]."""
    n_inside = int(mask.sum())
    n_outside = len(mask) - n_inside
    return float((ranks[mask].sum() - n_inside * (n_inside + 1) / 2) / (n_inside * n_outside))


def longest_rise(x: Shaped[np.ndarray, " n"], y: Float[np.ndarray, " n"]) -> int:
    """Return the length of the longest sequence of rows with rising x and no fall of y."""
    ends: list[float] = []  # the least last y of rises of each length
    for value in y[np.lexsort((-y, x))]:
        position = bisect_right(ends, value)
        ends[position : position + 1] = [value]
    return len(ends)
