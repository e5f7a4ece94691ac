"""Equal rows and near duplicates, by codes that say which values are equal."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int, Shaped

from datassay.results import result
from datassay.score.neighbors.search import nearest_neighbors

# Numbers that stand for one value of a column of words.
WIDTH = 8
# Of a normal distribution, the interquartile range in standard deviations.
NORMAL_RANGE = 1.349


@result
class RowCodes:
    """A table of mixed columns, ready for comparisons.

    Attributes:
        names: of its d columns.
        codes: [n, d], equal where values are; missing values of a column are equal.
        numbers: [n, d], asinh((value − median) / robust deviation) of columns of numbers; nan where
            missing, and for other columns.
        places: [n, m], where each row lies: numbers as above, 0 where missing; each other value,
            and being missing, a direction of its own, so that two different ones are about 1
            apart.
    """

    names: tuple[str, ...]
    codes: Int[np.ndarray, "n d"]
    numbers: Float[np.ndarray, "n d"]
    places: Float[np.ndarray, "n m"]


def row_codes(*tables: pa.Table) -> RowCodes:
    """One row of codes and places each, of tables of the same columns below each other."""
    codes, numbers, positions = [], [], []
    for name in tables[0].column_names:
        parts = [_comparable(table[name]) for table in tables]
        if len({part.type for part in parts}) > 1:
            parts = [part.cast(pa.string()) for part in parts]
        values = pa.chunked_array([chunk for part in parts for chunk in part.chunks], parts[0].type)
        dense = values.combine_chunks().dictionary_encode(null_encoding="encode")
        code = dense.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        codes.append(code)
        numbers.append(np.full(len(code), np.nan))
        if pa.types.is_floating(values.type):
            numbers[-1] = _scaled(values.to_numpy())
            positions.append(np.nan_to_num(numbers[-1])[:, None])
            code = np.isnan(numbers[-1]).astype(np.int64)
        if code.any():
            positions.append(_directions(code))
    empty = np.zeros((sum(table.num_rows for table in tables), 0))
    return RowCodes(
        names=tuple(tables[0].column_names),
        codes=np.stack(codes, 1) if codes else empty.astype(np.int64),
        numbers=np.stack([*numbers, *empty.T], 1).astype(np.float32) if numbers else empty,
        places=np.concatenate([empty, *positions], 1).astype(np.float32),
    )


def array_codes(x: Shaped[np.ndarray, "n ..."]) -> RowCodes:
    """The same of images or embeddings: one code per row, x itself as the places."""
    flat = np.ascontiguousarray(x.reshape(len(x), -1), np.float32) + 0
    rows = flat.view(f"V{flat.itemsize * flat.shape[1]}")[:, 0] if flat.size else flat.sum(1)
    codes = np.unique(rows, return_inverse=True)[1].reshape(-1, 1)
    return RowCodes(("values",), codes, np.full(codes.shape, np.nan, np.float32), flat)


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Numbers and times as float64 with nulls for what is missing, everything else as text."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        column = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        return column.cast(pa.float64(), safe=False)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        numbers = column.cast(pa.float64(), safe=False).to_numpy()
        return pa.chunked_array([pa.array(numbers, from_pandas=True)], pa.float64())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind):
        return column.cast(pa.string())
    texts = [None if value is None else str(value) for value in column.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string())], pa.string())


def _scaled(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    values = np.where(np.isfinite(values), values, np.nan)
    known = values[~np.isnan(values)]
    if not len(known):
        return np.full(len(values), np.nan)
    low, middle, high = np.quantile(known, [0.25, 0.5, 0.75])
    spread = (high - low) / NORMAL_RANGE
    if not spread > 0:  # most values are equal
        spread = np.abs(known - middle).mean() or 1.0
    return np.arcsinh((values - middle) / spread)


def _directions(code: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n w"]:
    n_values = int(code.max()) + 1
    if n_values <= WIDTH:
        return np.eye(n_values)[code] / np.sqrt(2)
    random = np.random.default_rng(n_values).standard_normal((n_values, WIDTH))
    return (random / np.linalg.norm(random, axis=1, keepdims=True) / np.sqrt(2))[code]


K = 10  # neighbours whose mean distance says how alone a row is
FEWEST = 12  # different rows that distances can be judged by
EXACT_UP_TO, WITHOUT_FAISS = 20_000, 50_000
# Shares of false pairs that are accepted (Benjamini and Hochberg): rows that differ in one column,
# and rows that lie close in all.
ONE_COLUMN, ALL_COLUMNS = 0.05, 0.01
# Chance that gives a share q of the rows a partner one column apart gives q²/2 two (Poisson).
# Copies come in pairs: where fewer than this part of q²/2 have two, the pairs are no accident.
CROWDED = 0.5
FEWEST_COLUMNS = 3


@result
class Duplicates:
    """Which rows repeat others.

    Attributes:
        group: [n], rows equal in all columns share a number from 0; −1: no other row is equal.
        pairs: [m, 2], positions of near duplicates, the first before the second; of equal rows the
            first stands for all.
        one_column: [m], whether the two differ in one column only; else they lie close in all.
        natural: whether equal rows are nothing unusual: at least half as many rows differ from
            another in one column only, without being a near duplicate.
        nearest: [n], position of the nearest other row, an equal one first; −1: not searched for.
        distance: [n], to it, in robust standard deviations (1 for another word); nan likewise.
        loneliness: [n], mean distance to the ten nearest different rows; nan likewise.
    """

    group: Int[np.ndarray, " n"]
    pairs: Int[np.ndarray, "m 2"]
    one_column: Bool[np.ndarray, " m"]
    natural: bool
    nearest: Int[np.ndarray, " n"]
    distance: Float[np.ndarray, " n"]
    loneliness: Float[np.ndarray, " n"]


@result
class _Near:
    """Different rows: their neighbours by distance, and those one column apart."""

    index: Int[np.ndarray, "u k"]
    distance: Float[np.ndarray, "u k"]
    apart: Int[np.ndarray, "u 2"]
    n_apart: Int[np.ndarray, " u"]


def duplicates(rows: RowCodes) -> Duplicates:
    """Equal rows by their hashes; near duplicates by how much closer the nearest row is.

    Two rows that differ in one column only are a near duplicate where that is no accident: where
    such pairs hardly ever share a row, or where the values in which the two agree are much rarer
    than those that the second most alike row shares. Rows that differ in all columns are one where
    the nearest is much closer than the second nearest. How much closer chance brings them is read
    off the step from the second to the third: the steps of an ordered sample are exponential and
    1/j as long from the jth on, whatever the data's dimension (Rényi 1953).

    Returns:
        Groups, pairs, neighbours. Neighbours are not searched for above 50 000 different rows
        without faiss (`datassay[neighbors]`), nor of fewer than 12.

    Cost: a sort of n a column, and the neighbours of the different rows: n² m / 2 float32
    operations to 20 000 of them, then about 12 n^1.5 m by faiss.
    Source: ours; accepted by Benjamini and Hochberg (1995).
    """
    # A random 64-bit number a value; sums over columns are a row's hash, with any column taken.
    random, keys = np.random.default_rng(0), np.empty(rows.codes.shape, np.uint64)
    for column, code in enumerate(rows.codes.T):
        values = random.integers(2**64, size=int(code.max(initial=0)) + 1, dtype=np.uint64)
        keys[:, column] = values[code]
    total = keys.sum(1, dtype=np.uint64)
    _, first, inverse, counts = np.unique(
        total, return_index=True, return_inverse=True, return_counts=True
    )
    repeated = np.cumsum(counts > 1) - 1
    group = np.where(counts[inverse] > 1, repeated[inverse], -1)
    near = _near(rows, keys[first], total[first], first)
    pairs, one_column, flagged = _near_pairs(rows.codes[first], near)
    natural = bool(2 * ((near.n_apart > 0) & ~flagged).sum() >= (group >= 0).sum() > 0)
    pairs = np.sort(first[pairs], 1)
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    own, last = np.arange(len(inverse)), np.full(len(first), -1)
    if not near.index.shape[1]:
        nearest, distance, loneliness = (np.full(len(own), v) for v in (-1, np.nan, np.nan))
    else:
        nearest, distance = first[near.index[inverse, 0]], near.distance[inverse, 0]
        loneliness = near.distance.mean(1)[inverse]
    last[inverse] = own  # of equal rows the last one
    repeated = last[inverse] != first[inverse]
    other = np.where(own == first[inverse], last[inverse], first[inverse])
    return Duplicates(
        group, pairs[order], one_column[order], natural, np.where(repeated, other, nearest),
        np.where(repeated, 0.0, distance), loneliness,
    )  # fmt: skip


def _near(rows: RowCodes, keys: np.ndarray, total: np.ndarray, first: np.ndarray) -> _Near:
    n, d = keys.shape
    apart, n_apart = np.full((n, 2), -1), np.zeros(n, int)
    for column in range(d if d >= FEWEST_COLUMNS else 0):
        without = total - keys[:, column]
        order = without.argsort(kind="stable")
        same = without[order][1:] == without[order][:-1]
        ahead, behind = order[1:][same], order[:-1][same]
        for these, others in ((ahead, behind), (behind, ahead)):
            apart[these, np.minimum(n_apart[these], 1)] = others
            n_apart[these] += 1
    has_faiss = find_spec("faiss") is not None
    if n < FEWEST or not rows.places.shape[1] or not (n <= WITHOUT_FAISS or has_faiss):
        return _Near(np.zeros((n, 0), int), np.zeros((n, 0)), apart, n_apart)
    approximate = n > EXACT_UP_TO and has_faiss
    neighbors = nearest_neighbors(
        rows.places[first], min(K + 1, n - 1), search="approximate" if approximate else "exact"
    )
    return _Near(neighbors.index[:, 1:], neighbors.distance[:, 1:], apart, n_apart)


def _near_pairs(
    codes: Int[np.ndarray, "u d"], near: _Near
) -> tuple[Int[np.ndarray, "m 2"], Bool[np.ndarray, " m"], Bool[np.ndarray, " u"]]:
    """Pairs, whether they differ in one column only, and which rows one column apart are in one."""
    n = len(codes)
    own = np.arange(n)
    is_apart = near.n_apart > 0
    if (near.n_apart > 1).mean() <= CROWDED * is_apart.mean() ** 2 / 2:
        accepted, partner = is_apart, near.apart[:, 0]
    else:
        accepted, partner = _rare_agreement(codes, near)
    close = np.zeros(n, bool)
    if near.distance.shape[1] >= 3:
        depth = -np.log(np.maximum(near.distance[:, :3], np.finfo(np.float32).tiny))
        close = _accepted(_chance(depth), ALL_COLUMNS) & ~is_apart
        close &= ~is_apart[near.index[:, 0]]
    other = near.index[close, 0] if close.any() else own[:0]
    pairs = np.concatenate([
        np.stack([own[accepted], partner[accepted]], 1), np.stack([own[close], other], 1)
    ])  # fmt: skip
    one_column = np.arange(len(pairs)) < accepted.sum()
    pairs, position = np.unique(np.sort(pairs, 1), axis=0, return_index=True)
    flagged = np.zeros(n, bool)
    flagged[pairs[one_column[position]].ravel()] = True
    return pairs, one_column[position], flagged


def _rare_agreement(
    codes: Int[np.ndarray, "u d"], near: _Near
) -> tuple[Bool[np.ndarray, " u"], Int[np.ndarray, " u"]]:
    """Rows one column apart whose agreement is far rarer than with the next most alike row."""
    n = len(codes)
    own = np.arange(n)[:, None]
    candidates = np.sort(np.concatenate([near.index, near.apart], 1), 1)
    again = np.zeros(candidates.shape, bool)
    again[:, 1:] = candidates[:, 1:] == candidates[:, :-1]
    again |= candidates < 0
    agreement = np.zeros(candidates.shape)
    for code in codes.T:
        others = np.maximum(np.bincount(code)[code] - 2, 0.5)  # beside this row and its copy
        agreement += (code[candidates] == code[:, None]) * np.log(n / others)[:, None]
    agreement[again] = -1.0
    order = np.argsort(-agreement, axis=1, kind="stable")
    best = candidates[own, order[:, :1]][:, 0]
    if candidates.shape[1] < 3:
        return np.zeros(n, bool), best
    chance = _chance(np.take_along_axis(agreement, order[:, :3], 1), most=1.0)
    chance[(codes != codes[best]).sum(1) != 1] = 1.0
    return _accepted(chance, ONE_COLUMN), best


def _chance(depth: Float[np.ndarray, "u 3"], most: float = np.inf) -> Float[np.ndarray, " u"]:
    """Of a first so far ahead of the second, by the steps from second to third."""
    step = 2 * (depth[:, 1] - depth[:, 2]).mean()
    rate = min(most, 1 / step) if step > 0 else most if np.isfinite(most) else 0.0
    return np.exp(-rate * (depth[:, 0] - depth[:, 1]))


def _accepted(chance: Float[np.ndarray, " u"], share: float) -> Bool[np.ndarray, " u"]:
    """Those whose expected share of accidents is at most `share`."""
    ordered = np.sort(chance)
    fits = np.flatnonzero(ordered <= share * np.arange(1, len(chance) + 1) / len(chance))
    return chance <= (ordered[fits[-1]] if len(fits) else -1.0)
