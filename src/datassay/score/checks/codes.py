"""Rows as codes, equal where values are, and as coordinates: near rows are alike."""

from collections.abc import Collection
from dataclasses import field

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int, Shaped

from datassay.optional import map_optional
from datassay.results import result
from datassay.score.checks.texts import normalize_texts, text_coordinates

WIDTH = 8  # most columns of `coordinates` for the values of a column of words
# Of a normal distribution, the interquartile range in standard deviations.
NORMAL_RANGE = 1.349
FEWEST_OWN = 20  # values that one row alone has, as amounts in cents: of fewer it is no habit


@result
class RowCodes:
    """A table of mixed columns, ready for comparisons.

    Attributes:
        names: of its d columns; none where rows are compared as a whole.
        codes: [n, d], equal where values are; missing values of a column are equal.
        numbers: [n, d], asinh((value − median) / robust deviation) of columns of numbers; nan where
            missing, and for other columns.
        coordinates: [n, m], where each row lies: numbers as above, 0 where missing; a direction for
            each other value and for being missing, so that two different ones are about 1 apart;
            texts less, as they share sequences of characters.
        words: [m], which columns of coordinates are such directions.
        standardised: [n, m], the same with numbers in standard deviations. A column whose values
            are one but for a few has no robust width but its errors, which would hide the copies
            of a row.
        texts: the texts of a column as `normalize_texts` gives them, by its position among d.
    """

    names: tuple[str, ...]
    codes: Int[np.ndarray, "n d"]
    numbers: Float[np.ndarray, "n d"]
    coordinates: Float[np.ndarray, "n m"]
    words: Bool[np.ndarray, " m"]
    standardised: Float[np.ndarray, "n m"]
    texts: dict[int, np.ndarray] = field(default_factory=dict)


def row_codes(*tables: pa.Table, texts: Collection[str] = ()) -> RowCodes:
    """Return tables with the same columns encoded as rows of codes and coordinates.

    texts: names of the columns of texts.
    """
    codes = []
    numbers = []
    coordinates = []
    standard_coordinates = []
    words = []
    normalized = {}
    for name in tables[0].column_names:
        comparables = [to_comparable(table[name]) for table in tables]
        if len({comparable.type for comparable in comparables}) > 1:
            comparables = [comparable.cast(pa.string()) for comparable in comparables]
        values = pa.chunked_array(
            [chunk for comparable in comparables for chunk in comparable.chunks],
            comparables[0].type,
        )
        dense = values.combine_chunks().dictionary_encode(null_encoding="encode")
        code = dense.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        codes.append(code)
        numbers.append(np.full(len(code), np.nan))
        if pa.types.is_floating(values.type):
            numbers[-1] = _scale_robustly(values.to_numpy())
            coordinates.append(np.nan_to_num(numbers[-1])[:, None].astype(np.float32))
            standard = np.nan_to_num(_standardize(values.to_numpy()))
            standard_coordinates.append(standard[:, None].astype(np.float32))
            words.append(False)
            code = np.isnan(numbers[-1]).astype(np.int64)  # being missing has a direction
        if code.any():  # more than one value
            if name in texts:
                normalized[len(codes) - 1] = normalize_texts(values.to_pylist())
                coordinates.append(text_coordinates(normalized[len(codes) - 1]))
            else:
                coordinates.append(_draw_directions(code).astype(np.float32))
            standard_coordinates.append(coordinates[-1])
            words += [True] * coordinates[-1].shape[1]
    zeros = np.zeros((sum(table.num_rows for table in tables), 0), np.float32)
    return RowCodes(
        names=tuple(tables[0].column_names),
        codes=np.stack(codes, 1) if codes else zeros.astype(np.int64),
        numbers=np.stack([*numbers, *zeros.T], 1).astype(np.float32) if numbers else zeros,
        coordinates=np.concatenate([zeros, *coordinates], 1),
        words=np.array(words, bool),
        standardised=np.concatenate([zeros, *standard_coordinates], 1),
        texts=normalized,
    )


def array_codes(x: Shaped[np.ndarray, "n ..."]) -> RowCodes:
    """Return images or embeddings encoded: one code per distinct row, x as coordinates."""
    flat = np.ascontiguousarray(x.reshape(len(x), -1), np.float32) + 0  # no −0: bytes are compared
    if flat.size:
        rows = flat.view(f"V{flat.itemsize * flat.shape[1]}")[:, 0]
    else:
        rows = flat.sum(1)
    codes = np.unique(rows, return_inverse=True)[1].reshape(-1, 1)
    no_numbers = np.full(codes.shape, np.nan, np.float32)
    words = np.zeros(flat.shape[1], bool)
    return RowCodes((), codes, no_numbers, flat, words, flat)


def to_comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column as float64 (numbers, times) or text; missing values are null."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        column = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        return column.cast(pa.float64(), safe=False)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        numbers = column.cast(pa.float64(), safe=False).to_numpy()
        return pa.chunked_array([pa.array(numbers, from_pandas=True)], pa.float64())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind):
        return column.cast(pa.string())
    texts = [map_optional(str, value) for value in column.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string())], pa.string())


def _scale_robustly(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return asinh of values in robust standard deviations from the median; nan if not finite."""
    values = np.where(np.isfinite(values), values, np.nan)
    finite = values[~np.isnan(values)]
    if not len(finite):
        return np.full(len(values), np.nan)
    low, middle, high = np.quantile(finite, [0.25, 0.5, 0.75])
    spread = (high - low) / NORMAL_RANGE
    if not spread > 0:  # most values are equal
        spread = np.abs(finite - middle).mean() or 1.0
    return np.arcsinh((values - middle) / spread)


def _standardize(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return values in standard deviations from the mean; nan if not finite."""
    values = np.where(np.isfinite(values), values, np.nan)
    if np.isnan(values).all():
        return values
    return (values - np.nanmean(values)) / (np.nanstd(values) or 1.0)


def _draw_directions(code: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n w"]:
    """Return a vector per row for its value's code: equal for equal values, of length √½."""
    # Orthogonal up to WIDTH values, else random.
    n_values = int(code.max()) + 1
    if n_values <= WIDTH:
        return np.eye(n_values)[code] / np.sqrt(2)
    directions = np.random.default_rng(n_values).standard_normal((n_values, WIDTH))
    return (directions / np.linalg.norm(directions, axis=1, keepdims=True) / np.sqrt(2))[code]


def rare_rows(
    codes: Int[np.ndarray, "u m"], is_repeated: Bool[np.ndarray, " u"]
) -> Bool[np.ndarray, " u"]:
    """Return which different rows have a value of their own where values hardly ever recur.

    codes: of the u different rows. is_repeated: which occur more than once. In a column of at least
    FEWEST_OWN such values, those of repeated rows are twice as many as the rows whose value two or
    three different rows have: by chance rows agree in one column more often than in all.
    """
    is_rare = np.zeros(len(codes), bool)
    for code in codes.T if is_repeated.any() else ():
        n_rows = np.bincount(code)[code]  # [u], that have the row's value
        is_own = n_rows == 1
        n_shared = ((n_rows == 2) | (n_rows == 3)).sum()
        if is_own.sum() >= FEWEST_OWN and 2 * n_shared <= (is_own & is_repeated).sum():
            is_rare |= is_own
    return is_rare
