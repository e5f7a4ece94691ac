"""The nearest neighbours of every sample, itself first: exact with a proof, or approximate."""

from importlib.util import find_spec
from numbers import Integral
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from datassay.errors import DataError, SettingError
from datassay.results import result
from datassay.score.neighbors.exact import (
    BLOCK_VALUES,
    TREE_COLUMNS,
    Nearest,
    nearest_approximate,
    nearest_exact,
)
from datassay.score.settings import SEARCHES

# From this many rows "auto" approximates where faiss is installed: exact takes minutes.
APPROXIMATE_FROM = 200_000
# Up to this many rows exact ones cost less than a graph: 115 s of processor time at 200 000 rows of
# 64 columns, where the graph that finds .95 of independent ones takes more than 210 s.
EXACT_UP_TO = 500_000
LARGEST = 1e150  # feature whose square is a number


@result
class Neighbors:
    """The k nearest neighbours of each sample.

    Attributes:
        index: [n, k], positions of the samples, the sample itself first, then by distance; ties
            by position.
        distance: [n, k], Euclidean, feature unit.
        search: the method used, "exact" or "approximate".
        recall: share of the exact neighbours that were found, the sample itself not counted; 1 for
            exact, else measured by the exact neighbours of 1000 random samples.
        redone: samples whose float32 candidates could not be proven complete and were searched
            again in float64; 0 where approximate.
    """

    index: Int[np.ndarray, "n k"]
    distance: Float[np.ndarray, "n k"]
    search: Literal["exact", "approximate"]
    recall: float
    redone: int


def nearest_neighbors(
    features: Shaped[np.ndarray, "n ..."],
    n_neighbors: int,
    *,
    search: str = "auto",
    probes: int | None = None,
) -> Neighbors:
    """Find the nearest neighbours of each sample, itself first.

    Exact: up to 2000 samples or 8 columns by scikit-learn's k-d tree, beyond by float32 products
    whose candidates are ranked in float64 and proven complete by an error bound; unproven ones are
    searched again in float64. Approximate: an inverted file of faiss or, where that finds less
    than .95 of the exact neighbours, as where columns are independent, its graph (HNSW), searched
    as widely as that takes.

    Args:
        features: [n, ...], finite; samples are flattened. Columns are compared as they are: one
            in a smaller unit counts for more.
        n_neighbors: k, the sample itself among them: 2 ≤ k < n.
        search: "exact", "approximate" (needs `datassay[neighbors]`), or "auto": exact below 200 000
            samples of more than 8 columns or without faiss, else approximate; up to 500 000 only
            if the inverted file finds .95.
        probes: cells of the inverted file that approximate ones search, whatever that finds; the
            recall is then nan. None: measured, the graph where it is needed.

    Returns:
        The neighbours. Equal samples are at distance 0 in the order of their positions.

    Raises:
        DataError: features are not numbers, not finite, or too large to be squared.
        SettingError: n_neighbors is below 2 or not below n, search is unknown, or faiss is missing.

    Cost: exact n² d float32 operations and up to 2²⁷ values and the rows; approximate about 12
    n^1.5 d by cells; by the graph more than exact at 200 000 samples of 64 independent columns,
    less beyond 500 000 or so. Memory n d values twice, and 2 n k; the graph n (d + 70).
    """
    x = checked_features(features)
    check_n_neighbors(n_neighbors, len(x))
    check_search(search)
    firsts, inverse = _find_distinct_rows(x)
    rows = torch.from_numpy(x if len(firsts) == len(x) else x[firsts])
    k = min(n_neighbors, len(rows))
    is_large = len(rows) >= APPROXIMATE_FROM and rows.shape[1] > TREE_COLUMNS
    outcome = None
    if search == "approximate" or (search == "auto" and is_large and find_spec("faiss")):
        has_graph = search == "approximate" or len(rows) > EXACT_UP_TO
        outcome = nearest_approximate(rows, k, probes, has_graph=has_graph)
    if outcome is not None:
        search = "approximate"
        nearest, recall = outcome
    else:
        search = "exact"
        nearest = nearest_exact(rows, torch.arange(len(rows)), k)
        recall = 1.0
    if len(firsts) == len(x):
        index = nearest.index
        squared = nearest.squared
    else:
        index, squared = _expand_repeats(nearest, firsts, inverse, n_neighbors)
    return Neighbors(index.numpy(), squared.sqrt().numpy(), search, recall, nearest.redone)


def checked_features(features: Shaped[np.ndarray, "n ..."]) -> Float[np.ndarray, "n d"]:
    """Return features as float64 rows, with −0 as 0; raise unless they are finite numbers."""
    if features.ndim == 0 or features.size == 0 or features.dtype.kind not in "biuf":
        raise DataError(
            "features must be numbers, [n, ...] with at least one column; got "
            f"{features.dtype} of shape {list(features.shape)}."
        )
    x = features.reshape(len(features), -1).astype(np.float64)
    x += 0.0
    is_bad = ~((x.max(1) < LARGEST) & (x.min(1) > -LARGEST))
    if is_bad.any():
        raise DataError(
            f"features must be finite and below {LARGEST:g}; {is_bad.sum()} of {len(x)} samples "
            f"are not, the first at position {is_bad.argmax()}. Remove or fill them."
        )
    return x


def check_n_neighbors(n_neighbors: float, n_samples: int) -> None:
    """Raise if the number of neighbours is not whole, is below 2, or is not below n."""
    if not (isinstance(n_neighbors, Integral) and 2 <= n_neighbors < n_samples):
        raise SettingError(
            "n_neighbors must be at least 2, the sample itself among them, whole, and below the "
            f"number of samples, {n_samples}; got {n_neighbors}."
        )


def check_search(search: str) -> None:
    """Raise if the search is unknown."""
    if search not in SEARCHES:
        raise SettingError(
            f"search must be 'auto', 'exact' or 'approximate'; got {search!r}. Leave it out."
        )


def _find_distinct_rows(x: np.ndarray) -> tuple[Int[np.ndarray, " u"], Int[np.ndarray, " n"]]:
    """Return the first position of each distinct row, and each sample's distinct row."""
    # A key per row: the sum of hashed values, each times a column's odd factor.
    odd_factors = np.random.default_rng(0).integers(2**63, size=x.shape[1], dtype=np.uint64) * 2 + 1
    keys = np.zeros(len(x), np.uint64)
    for column, factor in zip(x.T, odd_factors, strict=True):  # one by one, in little memory
        keys += _mix(np.ascontiguousarray(column).view(np.uint64)) * factor
    _, firsts, inverse = np.unique(keys, return_index=True, return_inverse=True)
    (repeats,) = np.nonzero(firsts[inverse] != np.arange(len(x)))
    if not np.array_equal(x[firsts[inverse[repeats]]], x[repeats]):  # two rows share a key
        _, firsts, inverse = np.unique(x, axis=0, return_index=True, return_inverse=True)
    order = firsts.argsort()
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return firsts[order], rank[inverse.reshape(-1)]


def _mix(bits: np.ndarray) -> np.ndarray:
    """Return numbers with their high bits also in the low ones."""
    # Low bits of short numbers are all 0: without this, products would share them.
    return bits ^ (bits >> np.uint64(32))


def _expand_repeats(
    nearest: Nearest, firsts: np.ndarray, inverse: np.ndarray, k: int
) -> tuple[Int[Tensor, "n k"], Float[Tensor, "n k"]]:
    """Return neighbours among all samples, from those among the distinct rows.

    firsts, inverse: as `_find_distinct_rows` returns them. Of k different rows, ties by first
    position, the samples hold all k nearest.
    """
    n = len(inverse)
    n_rows = len(firsts)
    counts = np.bincount(inverse, minlength=n_rows)
    by_row = inverse.argsort(kind="stable")
    starts = np.cumsum(counts) - counts
    columns = np.arange(min(k, counts.max()))
    exists = columns < counts[:, None]
    members = np.where(exists, by_row[np.minimum(starts[:, None] + columns, n - 1)], n)
    members = torch.from_numpy(members)  # of each distinct row; n: no more
    row = torch.from_numpy(inverse)
    index = torch.empty(n, k, dtype=torch.int64)
    squared = torch.empty(n, k, dtype=torch.float64)
    width = nearest.index.shape[1] * members.shape[1]
    for batch in torch.arange(n).split(max(1, BLOCK_VALUES // (4 * width))):
        neighbors = members[nearest.index[row[batch]]]  # [b, rows, repeats]
        distance = nearest.squared[row[batch], :, None].expand(neighbors.shape).flatten(1)
        neighbors = neighbors.flatten(1)
        distance = distance.masked_fill((neighbors == n) | (neighbors == batch[:, None]), torch.inf)
        neighbors, order = neighbors.sort(dim=1, stable=True)
        distance, position = distance.gather(1, order).sort(dim=1, stable=True)
        index[batch] = torch.cat([batch[:, None], neighbors.gather(1, position)[:, : k - 1]], 1)
        squared[batch] = torch.cat([distance.new_zeros(len(batch), 1), distance[:, : k - 1]], 1)
    return index, squared


N_ALIKE = 4  # samples shown on each side
MOST_VALUES = 2**25  # products held at a time
SIDES = ("given", "suggested")


@result
class Alike:
    """For each of m samples the nearest of the given class, and the nearest of the suggested one.

    Attributes:
        nearest: [m, sides, k], positions, nearest first; −1 where there are no more. Two sides, the
            given and the suggested class; without classes one, of all samples.
        distance: [m, sides, k], Euclidean, in the coordinates' unit; nan where there are no more.
    """

    nearest: Int[np.ndarray, "m sides k"]
    distance: Float[np.ndarray, "m sides k"]


def find_alike(
    coordinates: Shaped[np.ndarray, "n d"],
    positions: Int[np.ndarray, " m"],
    classes: Int[np.ndarray, " n"] | None = None,
    suggested: Int[np.ndarray, " n"] | None = None,
    k: int = N_ALIKE,
) -> Alike:
    """Return the samples nearest to some positions, of the given and the suggested class."""
    x = coordinates.astype(np.float32)
    n = len(coordinates)
    squares = np.einsum("nd,nd->n", x, x)
    if classes is None or suggested is None:
        sides = 1
    else:
        sides = len(SIDES)
    nearest = np.full((len(positions), sides, k), -1)
    distance = np.full(nearest.shape, np.nan)
    block = max(1, MOST_VALUES // n)
    for start in range(0, len(positions), block):
        batch = positions[start : start + block]
        squared = squares - 2 * (x[batch] @ x.T) + squares[batch, None]  # [b, n], squared
        squared[np.arange(len(batch)), batch] = np.inf
        for b, i in enumerate(batch):
            for side, in_side in enumerate(_mask_sides(int(i), classes, suggested)):
                values = np.where(in_side, squared[b], np.inf)
                nearest_idx = np.argpartition(values, min(k, len(values) - 1))[: k + 1]
                nearest_idx = nearest_idx[np.isfinite(values[nearest_idx])]
                nearest_idx = nearest_idx[np.lexsort((nearest_idx, values[nearest_idx]))][:k]
                nearest[start + b, side, : len(nearest_idx)] = nearest_idx
                distances = np.sqrt(squared[b][nearest_idx].clip(0))
                distance[start + b, side, : len(nearest_idx)] = distances
    return Alike(nearest, distance)


def _mask_sides(
    i: int, classes: np.ndarray | None, suggested: np.ndarray | None
) -> list[np.ndarray]:
    """Return masks of samples that may be shown for sample i: given and suggested class."""
    if classes is None or suggested is None:
        return [np.ones(1, bool)]
    has_label = classes == classes[i]
    # Where the given class is suggested, the other side shows all other classes.
    return [has_label, ~has_label if suggested[i] == classes[i] else classes == suggested[i]]
