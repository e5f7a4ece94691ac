"""Columns of numbers, booleans and lists of numbers; numbers among words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from datassay.data.float32 import MAX_LOSS, lost_features
from datassay.data.samples import Column
from datassay.data.tables.read import ReadColumn, rows_of, without_values
from datassay.results import result

# Whole numbers, each once, that fill so much of their range number the rows: a measurement would
# repeat some. A few rows must start at 0 or 1: what starts elsewhere may be years.
FEW_ROWS, MOST_OF_RANGE = 20, 0.8
MANY_ROWS, PART_OF_RANGE = 200, 0.5
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def of_numbers(values: pa.ChunkedArray, column: Column) -> ReadColumn:
    """A column of numbers, booleans, times of the day or durations."""
    # values: [n], nulls and NaN where they are missing.
    if pt.is_time(values.type) or pt.is_duration(values.type):
        unit = _SECONDS[values.type.unit]
        whole = values.cast(pa.int32() if pt.is_time32(values.type) else pa.int64())
        values = pc.multiply(whole.cast(pa.float64()), unit)  # type: ignore[attr-defined]
        column = replace(column, note="seconds")
    if pt.is_decimal(values.type):
        values = values.cast(pa.float64())
    is_missing = values.is_null(nan_is_null=True).to_numpy()
    if not is_missing.any():
        return checked(values.to_numpy(), column)
    if column.read_as != "number":
        return without_values(column, is_missing)
    if is_missing.all():
        column = replace(column, missing=len(is_missing))
        return ReadColumn(column, reason="all values are missing")
    present = values.filter(pa.array(~is_missing)).to_numpy()
    return with_missing(checked(present, column), is_missing)


def with_missing(read: ReadColumn, is_missing: np.ndarray) -> ReadColumn:
    """A column of which some values are missing.

    Args:
        read: the values that are there.
        is_missing: [n] bool, in which places others are missing.

    Returns:
        The same with [n] float64, NaN where they are missing.
    """
    column = replace(read.column, missing=int(is_missing.sum()))
    if read.values is None:
        return replace(read, column=column)
    full = np.full(len(is_missing), np.nan)
    full[~is_missing] = read.values
    # One value or none: which of both tells samples apart.
    return replace(read, column=column, values=full, reason="")


def checked(numbers: np.ndarray, column: Column) -> ReadColumn:
    """A column of numbers that are all there.

    Args:
        numbers: [n], of any type that NumPy has for numbers and booleans.
        column: its name and role.

    Returns:
        The column: with a problem where numbers are infinite or float32 loses their differences,
        with a reason where they are all the same or number the rows.
    """
    name = column.name
    if numbers.dtype.kind == "b" and column.read_as == "number":
        column = replace(column, read_as="boolean")
    if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
        is_infinite = ~np.isfinite(numbers)
        problem = (
            f"column {name!r} must be finite; {is_infinite.sum()} of {len(numbers)} values are "
            f"infinite ({rows_of(is_infinite)})"
        )
        return ReadColumn(column, problem=problem, remedy="Replace them or drop those rows")
    reason = _reason(numbers) if column.read_as in {"number", "boolean"} else ""
    if column.read_as == "number" and not reason and len(lost_features(numbers[:, None])):
        problem = (
            f"column {name!r} must keep its differences in float32, in which networks compute; "
            f"rounding changes it by more than {MAX_LOSS:.0%} of its standard deviation"
        )
        remedy = "Subtract an offset (of a time, the first), or choose a unit near 1"
        return ReadColumn(column, problem=problem, remedy=remedy)
    return ReadColumn(column, numbers, reason=reason)


def _reason(numbers: np.ndarray) -> str:
    low, high = numbers.min().item(), numbers.max().item()
    if low == high:
        return f"all values are {low}"
    return "it numbers the rows" if _are_row_numbers(numbers, low, high) else ""


def _are_row_numbers(numbers: np.ndarray, low: float, high: float) -> bool:
    n, size = len(numbers), high - low + 1
    if n < FEW_ROWS or n > size or numbers.dtype.kind == "b":
        return False
    is_dense = n >= PART_OF_RANGE * size if n >= MANY_ROWS else n >= MOST_OF_RANGE * size
    if not is_dense or (n < MANY_ROWS and low not in {0, 1}):
        return False
    is_whole = numbers.dtype.kind != "f" or bool((numbers == np.floor(numbers)).all())
    return is_whole and len(np.unique(numbers)) == n


def of_lists(values: pa.ChunkedArray, column: Column) -> ReadColumn:
    """Vectors, such as embeddings: one list of numbers a row, all of one length."""
    # values: [n] lists of numbers.
    is_missing = values.is_null().to_numpy()
    if is_missing.any():
        return without_values(column, is_missing)
    lengths = np.unique(pc.list_value_length(values).to_numpy())  # type: ignore[attr-defined]
    if len(lengths) != 1 or lengths[0] == 0:
        problem = (
            f"column {column.name!r} must hold lists of one length, 1 or more; got "
            f"{lengths.min()} to {lengths.max()} numbers"
        )
        return ReadColumn(column, problem=problem, remedy="Pad or cut them, or drop those rows")
    flat = pc.list_flatten(values).to_numpy()  # type: ignore[attr-defined]
    vectors = flat.reshape(len(values), -1)
    bad = ~np.isfinite(vectors).all(axis=1)  # a missing number is read as NaN
    if bad.any():
        problem = (
            f"column {column.name!r} must hold finite numbers alone; {bad.sum()} of {len(bad)} "
            f"lists hold others ({rows_of(bad)})"
        )
        return ReadColumn(column, problem=problem, remedy="Fill them in or drop those rows")
    if len(lost := lost_features(vectors)):
        column = replace(column, name=f"{column.name} {lost[0]}", read_as="number")
        return checked(vectors[:, lost[0]], column)
    return ReadColumn(replace(column, note=f"{vectors.shape[1]:,} numbers a row"), vectors)


# From this share on, a column of strings is one of numbers, and the rest of it is in error.
SHARE = 0.9
SHOWN = 5
NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
MARK = r"(?i)^\s*(\?|-|na|n/a|nan|null|none)?\s*$"
_WHOLE = r"^\s*[-+]?\d{1,18}\s*$"
CODE = r"^\s*0\d+\s*$"


@result
class NumberWords:
    """What strings say as numbers.

    Attributes:
        values: [n] int64 or float64, NaN where it is missing; None where one of them is neither
            number nor missing.
        is_number: [n] bool.
        is_mark: [n] bool, words that stand for a missing number.
        is_mostly: whether at least SHARE of those that are not missing are numbers.
        is_code: whether one starts with a zero, as "007" does: a name made of digits.
    """

    values: np.ndarray | None
    is_number: np.ndarray
    is_mark: np.ndarray
    is_mostly: bool
    is_code: bool


def number_words(words: pa.LargeStringArray) -> NumberWords:
    """Read strings as numbers.

    Args:
        words: [n], nulls allowed; they count neither way.

    Returns:
        What they say.

    Cost: one pass of a regular expression over all strings.
    """
    is_number = _matches(words, NUMBER)
    count, n = int(is_number.sum()), len(words) - words.null_count
    is_mark = are_marks(words) if 0 < count < n else np.zeros(len(words), dtype=bool)
    known = n - int(is_mark.sum())
    values = None
    if count and count == len(words):
        values = _parsed(words)
    elif count and count == known:
        values = np.full(len(words), np.nan)
        values[is_number] = _parsed(words.filter(pa.array(is_number)))
    return NumberWords(
        values=values,
        is_number=is_number,
        is_mark=is_mark,
        is_mostly=count > 0 and count >= SHARE * known,
        is_code=count > 0 and bool(_matches(words, CODE).any()),
    )


def are_marks(words: pa.LargeStringArray) -> np.ndarray:
    """Which words stand for a missing number or date, such as "?", "-" and "NA", [n] bool."""
    # words: [n], nulls allowed; they are none.
    return _matches(words, MARK)


def stray_words(words: pa.LargeStringArray, is_number: np.ndarray) -> tuple[int, str]:
    """How many words are no numbers, and the first ones with their rows.

    Args:
        words: [n], nulls allowed; they are passed over.
        is_number: [n] bool, of `number_words`.

    Returns:
        The count, and such as "'?' (row 17), '1,5' (row 20)".
    """
    strays = np.flatnonzero(~is_number & words.is_valid().to_numpy(zero_copy_only=False))
    shown = [f"{_short(words[int(i)].as_py())} (row {i})" for i in strays[:SHOWN]]
    return len(strays), ", ".join(shown) + ", ..." * (len(strays) > SHOWN)


def _short(word: str) -> str:
    return repr(word if len(word) <= 24 else word[:23] + "…")


def _matches(words: pa.LargeStringArray, pattern: str) -> np.ndarray:
    found = pc.match_substring_regex(words, pattern)  # type: ignore[attr-defined]
    return found.fill_null(False).to_numpy(zero_copy_only=False)


def _parsed(words: pa.LargeStringArray) -> np.ndarray:
    trimmed = pc.utf8_trim_whitespace(words)  # type: ignore[attr-defined]
    if _matches(words, _WHOLE).all():
        trimmed = pc.utf8_ltrim(trimmed, characters="+")  # type: ignore[attr-defined]
        return trimmed.cast(pa.int64()).to_numpy()
    return trimmed.cast(pa.float64()).to_numpy()
