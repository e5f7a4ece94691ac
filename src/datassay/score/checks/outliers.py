"""Rows far from all others: from their nearest ones, or with a small group of the like."""

import numpy as np
from jaxtyping import Float

OUTLIER = 3.5  # modified z-score (Iglewicz and Hoaglin 1993)
# A row of a small group has near neighbours, but is further than others from an eighth of all rows,
# for which a sample of them stands.
SAMPLE = 256
SHARE = 1 / 8
ROWS_AT_ONCE = 50_000


def outlier_score(
    coordinates: Float[np.ndarray, "n m"], nearest: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Return how far each row lies from the others, in robust standard deviations.

    Args:
        coordinates: where each row lies.
        nearest: its mean distance to the nearest rows; nan where that is not known.

    Returns:
        The larger of two modified z-scores minus OUTLIER: of `nearest`, and of the distance within
        which an eighth of the rows lie. nan where `nearest` is, or if all rows are alike.

    Cost: 512 n m operations.
    Source: Ramaswamy et al. (2000) for the nearest; the second is ours.
    """
    if not coordinates.shape[1]:
        return np.full(len(coordinates), np.nan)
    order = np.lexsort(coordinates.T[::-1])
    n_sampled = min(SAMPLE, len(coordinates))
    sample = coordinates[order[np.linspace(0, len(order) - 1, n_sampled).astype(np.int64)]]
    k = min(int(SHARE * n_sampled), n_sampled - 1)
    widths = [
        np.partition(_measure_distances(coordinates[start : start + ROWS_AT_ONCE], sample), k)[:, k]
        for start in range(0, len(coordinates), ROWS_AT_ONCE)
    ]
    width_score = _robust_z_scores(np.concatenate(widths)) + 0 * nearest  # nan where nearest is
    return np.fmax(_robust_z_scores(nearest), width_score) - OUTLIER


def _measure_distances(
    coordinates: Float[np.ndarray, "n m"], sample: Float[np.ndarray, "s m"]
) -> Float[np.ndarray, "n s"]:
    """Return Euclidean distances by |a|² + |b|² − 2 a·b; those within rounding of 0 are 0."""
    squares, sample_squares = (np.einsum("ij,ij->i", rows, rows) for rows in (coordinates, sample))
    squared = -2 * (coordinates @ sample.T) + squares[:, None] + sample_squares
    return np.sqrt(np.maximum(squared, 0))


def _robust_z_scores(distance: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return robust z-scores of distances; nan where most distances are equal."""
    finite = distance[~np.isnan(distance)]
    if not len(finite):
        return distance
    deviation = distance - np.median(finite)
    spread = 1.4826 * np.median(np.abs(finite - np.median(finite)))
    if spread > 0:
        return deviation / spread
    return np.full(len(deviation), np.nan)
