"""Columns of a table: what each is (numbers, a category, text, ...), and what is wrong with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from datassay.data.float32 import MAX_LOSS, lost_features
from datassay.data.number_words import SHARE, NumberWords, number_words, stray_words
from datassay.data.samples import Column
from datassay.data.source import Task, check_fits
from datassay.data.strings import as_arrow
from datassay.data.targets import MAX_GUESSED_CLASSES
from datassay.errors import DataError
from datassay.results import result

MAX_CATEGORIES = 20
MAX_CATEGORY_LENGTH = 200  # characters; a longer one is a text
SHOWN = 5
Role = Literal["feature", "target", "ids", "source"]

FILL = "Fill them in or drop those rows"
QUOTE = 'in .csv, quote a text that reads as missing: "NA"'
STRAY = (
    "Correct those values or drop their rows; if the column holds names made of digits, write a "
    "letter before each"
)


@result
class ReadColumn:
    """One column as read, and what is wrong with it.

    Attributes:
        column: how it was read.
        values: [n] numbers or booleans, or [n, m] of lists of numbers; None where it holds words,
            or something is wrong.
        words: [n] strings; None where it holds numbers, or something is wrong.
        problem: what is wrong; empty: nothing.
        remedy: what to do about it.
    """

    column: Column
    values: np.ndarray | None = None
    words: pa.LargeStringArray | None = None
    problem: str = ""
    remedy: str = ""


def read_column(
    values: pa.ChunkedArray, name: str, role: Role = "feature", task: Task | None = None
) -> ReadColumn:
    """Decide what a column is.

    Strings of which 90 % read as numbers are numbers, and the others of them in error; unless one
    starts with a zero (a code), the column names rows or sources, or it is a target of labels.

    Args:
        values: [n].
        name: its name.
        role: what it is for.
        task: of a target, where the user names it.

    Returns:
        The column; with a problem where values are missing, not finite, stray words, of a type
        that is neither number nor string, or lost in float64 or float32.
    """
    column = Column(name, "number" if role == "feature" else role)
    if role == "feature" and _is_lists(values.type):
        return _of_lists(values, replace(column, read_as="vector"))
    kind = values.type.value_type if pt.is_dictionary(values.type) else values.type
    if not _is_taken(kind):
        problem = f"column {name!r} must hold numbers, booleans or strings; got {kind}"
        remedy = "Convert it to a number (text to UTF-8) or drop it"
        return ReadColumn(column, problem=problem, remedy=remedy)
    try:
        if _is_string(kind):
            values = _decoded(values, name) if pt.is_dictionary(values.type) else values
            return _of_words(as_arrow(values, f"column {name!r}"), column, role, task)
    except DataError as error:
        problem, _, remedy = str(error).partition(". ")
        return ReadColumn(column, problem=problem, remedy=remedy.rstrip("."))
    if pt.is_dictionary(values.type):
        values = values.cast(kind)
    return _of_numbers(values, column)


def _decoded(values: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Strings that are stored once each, each where it belongs."""
    parts = [(c.dictionary.cast(pa.large_string()), c.indices) for c in values.chunks]
    lengths = (pc.binary_length(words).take(rows) for words, rows in parts)  # type: ignore[attr-defined]
    size = sum(pc.sum(each).as_py() or 0 for each in lengths)  # type: ignore[attr-defined]
    check_fits(2.0 * size, f"column {name!r}")
    return pa.chunked_array([words.take(rows) for words, rows in parts], pa.large_string())


def _of_numbers(values: pa.ChunkedArray, column: Column) -> ReadColumn:
    if pt.is_decimal(values.type):
        values = values.cast(pa.float64())
    is_missing = values.is_null(nan_is_null=True).to_numpy()
    if is_missing.any():
        return _missing(column, is_missing)
    return _checked(values.to_numpy(), column)


def _is_lists(kind: pa.DataType) -> bool:
    is_list = pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind)
    return is_list and (pt.is_floating(kind.value_type) or pt.is_integer(kind.value_type))


def _of_lists(values: pa.ChunkedArray, column: Column) -> ReadColumn:
    """Vectors, such as embeddings: one list of numbers a row, all of one length."""
    is_missing = values.is_null().to_numpy()
    if is_missing.any():
        return _missing(column, is_missing)
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
            f"lists hold others ({_rows(bad)})"
        )
        return ReadColumn(column, problem=problem, remedy=FILL)
    if len(lost := lost_features(vectors)):
        column = replace(column, name=f"{column.name} {lost[0]}")
        return _checked(vectors[:, lost[0]], replace(column, read_as="number"))
    return ReadColumn(replace(column, note=f"{vectors.shape[1]:,} numbers a row"), vectors)


def _checked(numbers: np.ndarray, column: Column) -> ReadColumn:
    name = column.name
    if numbers.dtype.kind == "b" and column.read_as == "number":
        column = replace(column, read_as="boolean")
    if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
        is_infinite = ~np.isfinite(numbers)
        problem = (
            f"column {name!r} must be finite; {is_infinite.sum()} of {len(numbers)} values are "
            f"infinite ({_rows(is_infinite)})"
        )
        return ReadColumn(column, problem=problem, remedy="Replace them or drop those rows")
    if column.read_as == "number" and len(lost_features(numbers[:, None])):
        problem = (
            f"column {name!r} must keep its differences in float32, in which networks compute; "
            f"rounding changes it by more than {MAX_LOSS:.0%} of its standard deviation"
        )
        remedy = "Subtract an offset (of a time, the first), or choose a unit near 1"
        return ReadColumn(column, problem=problem, remedy=remedy)
    return ReadColumn(column, numbers)


def _of_words(
    words: pa.LargeStringArray, column: Column, role: Role, task: Task | None
) -> ReadColumn:
    is_missing = words.is_null().to_numpy(zero_copy_only=False)
    if role in {"ids", "source"}:
        return _missing(column, is_missing) if is_missing.any() else ReadColumn(column, None, words)
    read = number_words(words)
    if _are_numbers(words, read, role, task):
        if read.values is None:
            return _with_strays(words, column, read, is_missing)
        return _checked(read.values, replace(column, note="strings of numbers"))
    if is_missing.any():
        return _missing(column, is_missing)
    note = "digits with leading zeros are a code" if read.is_code else _share_note(read)
    if role == "target":
        note = note or _stray_labels(words, read)
        return ReadColumn(replace(column, note=note), None, words)
    k = _n_distinct(words)
    column = replace(column, read_as="category" if k else "text", n_values=k, note=note)
    return ReadColumn(column, None, words)


def _are_numbers(
    words: pa.LargeStringArray, read: NumberWords, role: Role, task: Task | None
) -> bool:
    """Whether words are a column of numbers; a target of few distinct words names classes."""
    if role != "target":
        return read.is_mostly and not read.is_code
    if task is not None or not read.is_mostly:
        return task == "regression" and read.is_mostly
    is_plain = read.values is not None and not read.is_code
    return is_plain or len(words.unique()) > MAX_GUESSED_CLASSES


def _share_note(read: NumberWords) -> str:
    """That many of the words are numbers, where they are not most."""
    share = float(read.is_number.mean())
    return f"{share:.0%} of the values are numbers" if 0.5 <= share < SHARE else ""


def _stray_labels(words: pa.LargeStringArray, read: NumberWords) -> str:
    """Labels of which most are numbers: the ones that are not may be mistakes."""
    if not read.is_mostly or read.values is not None:
        return ""
    count, shown = stray_words(words, read.is_number)
    return f"labels; {count} {'is no number' if count == 1 else 'are no numbers'}: {shown}"


def _with_strays(
    words: pa.LargeStringArray, column: Column, read: NumberWords, is_missing: np.ndarray
) -> ReadColumn:
    count, shown = stray_words(words, read.is_number)
    missing = int(is_missing.sum())
    if not count:
        return _missing(column, is_missing)
    problem = (
        f"column {column.name!r} is one of numbers ({read.is_number.sum()} of {len(words)} values "
        f"are), but {count} {'is none' if count == 1 else 'are none'}: {shown}"
    )
    problem += f", and {missing} are missing ({_rows(is_missing)})" if missing else ""
    return ReadColumn(column, problem=problem, remedy=STRAY)


def _missing(column: Column, is_missing: np.ndarray) -> ReadColumn:
    problem = (
        f"column {column.name!r} must have no missing values; {is_missing.sum()} of "
        f"{len(is_missing)} are missing ({_rows(is_missing)})"
    )
    return ReadColumn(column, problem=problem, remedy=f"{FILL} ({QUOTE})")


def _rows(mask: np.ndarray) -> str:
    rows = np.flatnonzero(mask)
    word = "row" if len(rows) == 1 else "rows"
    return f"{word} {', '.join(map(str, rows[:SHOWN]))}{', ...' * (len(rows) > SHOWN)}"


def _n_distinct(words: pa.LargeStringArray) -> int | None:
    """The number of distinct strings; None beyond MAX_CATEGORIES, or where one is long."""
    lengths = pc.utf8_length(words)  # type: ignore[attr-defined]
    if pc.max(lengths).as_py() > MAX_CATEGORY_LENGTH:  # type: ignore[attr-defined]
        return None
    for part in (words[: 50 * MAX_CATEGORIES], words):  # a text is told by its first rows
        if (k := len(part.unique())) > MAX_CATEGORIES:
            return None
    return k


def _is_taken(kind: pa.DataType) -> bool:
    plain = pt.is_null(kind) or pt.is_boolean(kind) or pt.is_integer(kind) or pt.is_floating(kind)
    return plain or pt.is_decimal(kind) or _is_string(kind)


def _is_string(kind: pa.DataType) -> bool:
    return pt.is_string(kind) or pt.is_large_string(kind) or str(kind) == "string_view"
