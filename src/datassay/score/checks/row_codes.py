"""Rows of a table as numbers: codes that say which values are equal, and places for distances."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int, Shaped

from datassay.results import result

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
    """Codes and places of the rows of one table, or of several below each other.

    Args:
        tables: of the same columns; what is neither number nor time is compared as text.

    Returns:
        One row each; columns that never differ stay, and add nothing to a distance.

    Cost: a sort a column, and 8 n values a column of words.
    """
    codes, numbers, places = [], [], []
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
            places.append(np.nan_to_num(numbers[-1])[:, None])
            code = np.isnan(numbers[-1]).astype(np.int64)
        if code.any():
            places.append(_directions(code))
    empty = np.zeros((sum(table.num_rows for table in tables), 0))
    return RowCodes(
        names=tuple(tables[0].column_names),
        codes=np.stack(codes, 1) if codes else empty.astype(np.int64),
        numbers=np.stack([*numbers, *empty.T], 1).astype(np.float32) if numbers else empty,
        places=np.concatenate([empty, *places], 1).astype(np.float32),
    )


def array_codes(x: Shaped[np.ndarray, "n ..."]) -> RowCodes:
    """The same of images or embeddings, whose single numbers have no names and one unit.

    Args:
        x: any shape.

    Returns:
        One code a row, no numbers of columns, and x itself as the places.
    """
    flat = np.ascontiguousarray(x.reshape(len(x), -1), np.float32) + 0
    rows = flat.view(f"V{flat.itemsize * flat.shape[1]}")[:, 0] if flat.size else flat.sum(1)
    codes = np.unique(rows, return_inverse=True)[1].reshape(-1, 1)
    return RowCodes(("values",), codes, np.full(codes.shape, np.nan, np.float32), flat)


def telling_columns(rows: pa.Table, targets: np.ndarray) -> list[str]:
    """Names of columns, those that tell most of the target first.

    Args:
        rows: the columns of n samples.
        targets: [n], class indices or numbers; of [n, k] the first.

    Returns:
        All names by Cramér's V between ten quantiles (or the commonest words) of the column and
        the target, less what chance gives (Bergsma 2013).
    """
    if not rows.num_rows or not rows.num_columns:
        return rows.column_names
    coded = row_codes(rows)
    first = targets.reshape(len(targets), -1)[:, 0]
    wanted = _few(first.astype(np.int64) if first.dtype.kind in "iu" else _quantiles(first))
    told = []
    for code, numbers in zip(coded.codes.T, coded.numbers.T, strict=True):
        of_numbers = not np.isnan(numbers).all()
        told.append(_association(_few(_quantiles(numbers) if of_numbers else code), wanted))
    return [coded.names[c] for c in np.argsort(-np.array(told), kind="stable")]


def _quantiles(values: np.ndarray) -> Int[np.ndarray, " n"]:
    """Which tenth a number lies in; missing ones are the eleventh."""
    edges = np.nanquantile(values, np.arange(0.1, 1, 0.1)) if len(values) else values
    return np.where(np.isnan(values), 10, np.searchsorted(edges, values))


def _few(code: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """The commonest 20 values by their rank, all others as one."""
    _, dense, counts = np.unique(code, return_inverse=True, return_counts=True)
    rank = np.argsort(np.argsort(-counts, kind="stable"))
    return np.minimum(rank, 20)[dense]


def _association(one: Int[np.ndarray, " n"], other: Int[np.ndarray, " n"]) -> float:
    n, shape = len(one), (int(one.max()) + 1, int(other.max()) + 1)
    table = np.bincount(one * shape[1] + other, minlength=shape[0] * shape[1]).reshape(shape)
    expected = np.outer(table.sum(1), table.sum(0)) / n
    freedom = (shape[0] - 1) * (shape[1] - 1)
    if not freedom:
        return 0.0
    square = ((table - expected) ** 2 / expected).sum() / n - freedom / (n - 1 or 1)
    return float(max(0.0, square) / (min(shape) - 1))


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
