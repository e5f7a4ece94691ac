"""The nearest neighbours of every sample, itself first: exact with a proof, or approximate."""

from __future__ import annotations

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
    PROBES,
    TREE_COLUMNS,
    Nearest,
    measured_recall,
    nearest_approximate,
    nearest_exact,
)
from datassay.score.settings import SEARCHES

# From this many rows "auto" approximates where faiss is installed: exact takes minutes.
APPROXIMATE_FROM = 200_000
LARGEST = 1e150


@result
class Neighbors:
    """The k nearest neighbours of each sample.

    Attributes:
        index: [n, k], positions of the samples, the sample itself first, then by distance; ties
            by position.
        distance: [n, k], Euclidean, feature unit.
        search: the method used, "exact" or "approximate".
        recall: share of the exact neighbours that were found, the sample itself not counted; 1 for
            exact, else measured on 500 random samples.
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
    measured: bool = True,
    probes: int = PROBES,
) -> Neighbors:
    """The nearest neighbours of each sample, itself first.

    Exact: up to 2000 samples or 8 columns by scikit-learn's k-d tree, beyond by float32 products
    whose candidates are ranked in float64 and proven complete by an error bound; unproven ones are
    searched again in float64. Approximate: an inverted file of faiss.

    Args:
        features: [n, ...], finite, any unit; samples are flattened.
        n_neighbors: k, the sample itself among them: 2 ≤ k < n.
        search: "exact", "approximate" (needs `datassay[neighbors]`), or "auto": exact below 200 000
            samples of more than 8 columns or without faiss, else approximate.
        measured: whether the recall of approximate ones is measured; else it is nan.
        probes: cells that approximate ones search.

    Returns:
        The neighbours. Equal samples are at distance 0 in the order of their positions.

    Raises:
        DataError: features are not numbers, not finite, or too large to be squared.
        SettingError: n_neighbors is below 2 or not below n, search is unknown, or faiss is missing.

    Cost: exact n² d float32 operations and up to 2²⁷ values and the rows; approximate about 12
    n^1.5 d. Memory n d values twice, and 2 n k.
    """
    x = checked_features(features)
    check_n_neighbors(n_neighbors, len(x))
    check_search(search)
    first, inverse = _different_rows(x)
    rows = torch.from_numpy(x if len(first) == len(x) else x[first])
    k = min(n_neighbors, len(rows))
    is_large = len(rows) >= APPROXIMATE_FROM and rows.shape[1] > TREE_COLUMNS
    if search == "approximate" or (search == "auto" and is_large and find_spec("faiss")):
        search, nearest = "approximate", nearest_approximate(rows, k, probes)
        recall = measured_recall(rows, nearest, k) if measured and k > 1 else float("nan")
    else:
        search, nearest = "exact", nearest_exact(rows, torch.arange(len(rows)), k)
        recall = 1.0
    if len(first) == len(x):
        index, squared = nearest.index, nearest.squared
    else:
        index, squared = _with_repeats(nearest, first, inverse, n_neighbors)
    return Neighbors(index.numpy(), squared.sqrt().numpy(), search, recall, nearest.redone)


def checked_features(features: Shaped[np.ndarray, "n ..."]) -> Float[np.ndarray, "n d"]:
    """The features as finite float64 rows, [n, d]; −0 becomes 0."""
    if features.ndim == 0 or features.size == 0 or features.dtype.kind not in "biuf":
        raise DataError(
            "features must be numbers, [n, ...] with at least one column; got "
            f"{features.dtype} of shape {list(features.shape)}."
        )
    x = features.reshape(len(features), -1).astype(np.float64)
    x += 0.0
    bad = ~((x.max(1) < LARGEST) & (x.min(1) > -LARGEST))
    if bad.any():
        raise DataError(
            f"features must be finite and below {LARGEST:g}; {bad.sum()} of {len(x)} samples are "
            f"not, the first at position {bad.argmax()}. Remove or fill them."
        )
    return x


def check_n_neighbors(n_neighbors: float, n_samples: int) -> None:
    """Refuse a number of neighbours that is not whole, below 2 or not below n."""
    if not (isinstance(n_neighbors, Integral) and 2 <= n_neighbors < n_samples):
        raise SettingError(
            "n_neighbors must be at least 2, the sample itself among them, whole, and below the "
            f"number of samples, {n_samples}; got {n_neighbors}."
        )


def check_search(search: str) -> None:
    """Refuse the name of an unknown search."""
    if search not in SEARCHES:
        raise SettingError(
            f"search must be 'auto', 'exact' or 'approximate'; got {search!r}. Leave it out."
        )


def _different_rows(x: np.ndarray) -> tuple[Int[np.ndarray, " u"], Int[np.ndarray, " n"]]:
    """Positions of the first of each different row, ascending, and each row's index among them."""
    odd = np.random.default_rng(0).integers(2**63, size=x.shape[1], dtype=np.uint64) * 2 + 1
    keys = np.zeros(len(x), np.uint64)
    for column, factor in zip(x.T, odd, strict=True):  # one by one, in little memory
        keys += _mixed(np.ascontiguousarray(column).view(np.uint64)) * factor
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    (again,) = np.nonzero(first[inverse] != np.arange(len(x)))
    if not np.array_equal(x[first[inverse[again]]], x[again]):  # two rows share a key
        _, first, inverse = np.unique(x, axis=0, return_index=True, return_inverse=True)
    order = first.argsort()
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    return first[order], position[inverse.reshape(-1)]


def _mixed(bits: np.ndarray) -> np.ndarray:
    # Low bits of short numbers are all 0: without this, products would share them.
    return bits ^ (bits >> np.uint64(32))


def _with_repeats(
    nearest: Nearest, first: np.ndarray, inverse: np.ndarray, k: int
) -> tuple[Int[Tensor, "n k"], Float[Tensor, "n k"]]:
    """Neighbours among all samples, from those among different rows and their repeats."""
    # k different rows suffice: with ties by first position, k samples come before any left out.
    n, n_rows = len(inverse), len(first)
    counts = np.bincount(inverse, minlength=n_rows)
    by_row = inverse.argsort(kind="stable")
    starts = np.cumsum(counts) - counts
    columns = np.arange(min(k, counts.max()))
    there = columns < counts[:, None]
    members = np.where(there, by_row[np.minimum(starts[:, None] + columns, n - 1)], n)
    members, row = torch.from_numpy(members), torch.from_numpy(inverse)
    index = torch.empty(n, k, dtype=torch.int64)
    squared = torch.empty(n, k, dtype=torch.float64)
    width = nearest.index.shape[1] * members.shape[1]
    for own in torch.arange(n).split(max(1, BLOCK_VALUES // (4 * width))):
        near = members[nearest.index[row[own]]]  # [b, rows, repeats]
        distance = nearest.squared[row[own], :, None].expand(near.shape).flatten(1)
        near = near.flatten(1)
        distance = distance.masked_fill((near == n) | (near == own[:, None]), torch.inf)
        near, order = near.sort(dim=1, stable=True)
        distance, position = distance.gather(1, order).sort(dim=1, stable=True)
        index[own] = torch.cat([own[:, None], near.gather(1, position)[:, : k - 1]], 1)
        squared[own] = torch.cat([distance.new_zeros(len(own), 1), distance[:, : k - 1]], 1)
    return index, squared


N_ALIKE = 4
MOST_VALUES = 2**25  # products held at a time
SIDES = ("given", "suggested")


@result
class Alike:
    """For each of m samples the nearest of the given class, and the nearest of the suggested one.

    Attributes:
        nearest: [m, sides, k], positions, nearest first; −1 where there are no more. Two sides, the
            given and the suggested class; without classes one, of all samples.
        distance: [m, sides, k], Euclidean, in the places' unit; nan where there are no more.
    """

    nearest: Int[np.ndarray, "m sides k"]
    distance: Float[np.ndarray, "m sides k"]


def alike(
    indices: Shaped[np.ndarray, "n d"],
    positions: Int[np.ndarray, " m"],
    classes: Int[np.ndarray, " n"] | None = None,
    suggested: Int[np.ndarray, " n"] | None = None,
    k: int = N_ALIKE,
) -> Alike:
    """The samples nearest to some."""
    x, n = indices.astype(np.float32), len(indices)
    squares = np.einsum("nd,nd->n", x, x)
    sides = 1 if classes is None or suggested is None else len(SIDES)
    nearest = np.full((len(positions), sides, k), -1)
    distance = np.full(nearest.shape, np.nan)
    block = max(1, MOST_VALUES // n)
    for start in range(0, len(positions), block):
        own = positions[start : start + block]
        far = squares - 2 * (x[own] @ x.T) + squares[own, None]  # [b, n], squared
        far[np.arange(len(own)), own] = np.inf
        for b, i in enumerate(own):
            for side, inside in enumerate(_sides(int(i), classes, suggested)):
                values = np.where(inside, far[b], np.inf)
                few = np.argpartition(values, min(k, len(values) - 1))[: k + 1]
                few = few[np.isfinite(values[few])]
                few = few[np.lexsort((few, values[few]))][:k]
                nearest[start + b, side, : len(few)] = few
                gap = np.sqrt(far[b][few].clip(0))
                distance[start + b, side, : len(few)] = gap
    return Alike(nearest, distance)


def _sides(i: int, classes: np.ndarray | None, suggested: np.ndarray | None) -> list[np.ndarray]:
    """Which samples each side may take, [n] each."""
    if classes is None or suggested is None:
        return [np.ones(1, bool)]
    given = classes == classes[i]
    return [given, ~given if suggested[i] == classes[i] else classes == suggested[i]]
