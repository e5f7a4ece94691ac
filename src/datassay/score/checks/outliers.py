"""Rows far from all others: from their nearest ones, or with a small group of the like."""

import numpy as np
from jaxtyping import Float

OUTLIER = 3.5  # modified z-score (Iglewicz and Hoaglin 1993)
# Rows that stand for all, and the share of them within the distance that tells a small group: rows
# that are further from an eighth of all than others are, though neighbours of their own are near.
STANDING = 256
SHARE = 1 / 8
ROWS_AT_ONCE = 50_000


def outlier_score(
    places: Float[np.ndarray, "n m"], nearest: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Return how far each row lies from the others.

    Args:
        places: where each row lies.
        nearest: its mean distance to the nearest rows; nan where that is not known.

    Returns:
        The larger of two modified z-scores, of that distance and of the one within which an eighth
        of the rows lie, minus OUTLIER; nan where the first is not known or all are alike.

    Cost: 512 n m operations.
    Source: Ramaswamy et al. (2000) for the nearest; the second is ours.
    """
    if not places.shape[1]:
        return np.full(len(places), np.nan)
    order = np.lexsort(places.T[::-1])
    n_standing = min(STANDING, len(places))
    standing = places[order[np.linspace(0, len(order) - 1, n_standing).astype(np.int64)]]
    k = min(int(SHARE * n_standing), n_standing - 1)
    widths = [
        np.partition(_distances(places[start : start + ROWS_AT_ONCE], standing), k)[:, k]
        for start in range(0, len(places), ROWS_AT_ONCE)
    ]
    return np.fmax(_z_scores(nearest), _z_scores(np.concatenate(widths)) + 0 * nearest) - OUTLIER


def _distances(
    places: Float[np.ndarray, "n m"], standing: Float[np.ndarray, "s m"]
) -> Float[np.ndarray, "n s"]:
    """Return Euclidean distances by products; those within rounding of 0 are 0."""
    squares = [np.einsum("ij,ij->i", rows, rows) for rows in (places, standing)]
    squared = -2 * (places @ standing.T) + squares[0][:, None] + squares[1]
    return np.sqrt(np.maximum(squared, 0))


def _z_scores(distance: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return distances less their median in robust standard deviations; nan where all are equal."""
    finite = distance[~np.isnan(distance)]
    if not len(finite):
        return distance
    deviation = distance - np.median(finite)
    spread = 1.4826 * np.median(np.abs(finite - np.median(finite)))
    if spread > 0:
        return deviation / spread
    return np.full(len(deviation), np.nan)
