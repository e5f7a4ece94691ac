"""Codes of rows, that say which values are equal, and where each row lies."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int, Shaped

from datassay.results import result
from datassay.score.checks.texts import normalized, text_places

# Numbers that stand for one value of a column of words.
WIDTH = 8
# Of a normal distribution, the interquartile range in standard deviations.
NORMAL_RANGE = 1.349


@result
class RowCodes:
    """A table of mixed columns, ready for comparisons.

    Attributes:
        names: of its d columns; none where rows are compared as a whole.
        codes: [n, d], equal where values are; missing values of a column are equal.
        numbers: [n, d], asinh((value − median) / robust deviation) of columns of numbers; nan where
            missing, and for other columns.
        places: [n, m], where each row lies: numbers as above, 0 where missing; each other value,
            and being missing, a direction of its own, so that two different ones are about 1
            apart; texts less, as they share sequences of characters.
        words: [m], which of these are such directions.
        plain: [n, m], the same with numbers in standard deviations. A column whose values are one
            but for a few has no robust width but its errors, which would hide the copies of a row.
        texts: of columns of texts, their place among the d columns, and the texts without case,
            punctuation and further spaces.
    """

    names: tuple[str, ...]
    codes: Int[np.ndarray, "n d"]
    numbers: Float[np.ndarray, "n d"]
    places: Float[np.ndarray, "n m"]
    words: Bool[np.ndarray, " m"]
    plain: Float[np.ndarray, "n m"]
    texts: dict[int, np.ndarray] = field(default_factory=dict)


def row_codes(*tables: pa.Table, texts: Collection[str] = ()) -> RowCodes:
    """One row of codes and places each, of tables of the same columns below each other."""
    codes, numbers, positions, plain, words, normal = [], [], [], [], [], {}
    for name in tables[0].column_names:
        parts = [comparable(table[name]) for table in tables]
        if len({part.type for part in parts}) > 1:
            parts = [part.cast(pa.string()) for part in parts]
        values = pa.chunked_array([chunk for part in parts for chunk in part.chunks], parts[0].type)
        dense = values.combine_chunks().dictionary_encode(null_encoding="encode")
        code = dense.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        codes.append(code)
        numbers.append(np.full(len(code), np.nan))
        if pa.types.is_floating(values.type):
            numbers[-1] = _scaled(values.to_numpy())
            positions.append(np.nan_to_num(numbers[-1])[:, None].astype(np.float32))
            standard = np.nan_to_num(_standardized(values.to_numpy()))
            plain.append(standard[:, None].astype(np.float32))
            words.append(False)
            code = np.isnan(numbers[-1]).astype(np.int64)
        if code.any():
            if name in texts:
                normal[len(codes) - 1] = normalized(values.to_pylist())
                positions.append(text_places(normal[len(codes) - 1]))
            else:
                positions.append(_directions(code).astype(np.float32))
            plain.append(positions[-1])
            words += [True] * positions[-1].shape[1]
    empty = np.zeros((sum(table.num_rows for table in tables), 0), np.float32)
    return RowCodes(
        names=tuple(tables[0].column_names),
        codes=np.stack(codes, 1) if codes else empty.astype(np.int64),
        numbers=np.stack([*numbers, *empty.T], 1).astype(np.float32) if numbers else empty,
        places=np.concatenate([empty, *positions], 1),
        words=np.array(words, bool),
        plain=np.concatenate([empty, *plain], 1),
        texts=normal,
    )


def array_codes(x: Shaped[np.ndarray, "n ..."]) -> RowCodes:
    """The same of images or embeddings: one code per row, x itself as the places."""
    flat = np.ascontiguousarray(x.reshape(len(x), -1), np.float32) + 0
    rows = flat.view(f"V{flat.itemsize * flat.shape[1]}")[:, 0] if flat.size else flat.sum(1)
    codes = np.unique(rows, return_inverse=True)[1].reshape(-1, 1)
    nothing, words = np.full(codes.shape, np.nan, np.float32), np.zeros(flat.shape[1], bool)
    return RowCodes((), codes, nothing, flat, words, flat)


def comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
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


def _standardized(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    values = np.where(np.isfinite(values), values, np.nan)
    if np.isnan(values).all():
        return values
    return (values - np.nanmean(values)) / (np.nanstd(values) or 1.0)


def _directions(code: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n w"]:
    n_values = int(code.max()) + 1
    if n_values <= WIDTH:
        return np.eye(n_values)[code] / np.sqrt(2)
    random = np.random.default_rng(n_values).standard_normal((n_values, WIDTH))
    return (random / np.linalg.norm(random, axis=1, keepdims=True) / np.sqrt(2))[code]
