"""Columns of a table: what each is (a number, a date, a category), or what is wrong with it."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from datassay.data.samples import Column
from datassay.data.source import Task, check_fits
from datassay.data.strings import as_arrow
from datassay.data.tables.choices import Choices
from datassay.data.tables.dates import are_dates, of_date_words, of_dates
from datassay.data.tables.numeric import of_lists, of_numbers
from datassay.data.tables.read import ReadColumn, left_out, without_values
from datassay.data.tables.words import as_category, as_text, of_words
from datassay.errors import DataError


def read_column(
    values: pa.ChunkedArray, name: str, chosen: Choices, date_form: str | None = None
) -> ReadColumn:
    """Decide what a column is.

    Args:
        values: [n].
        name: its name.
        chosen: what it is for, and the user's choices, which win over our rules.
        date_form: of a column that was one of dates before; None: whichever reads most of them.

    Returns:
        The column; with a problem where ids or sources are missing, where values are not finite,
        lost in float32 or of a type that no rule takes, or where stray words stand among numbers
        or dates.
    """
    role = chosen.roles.get(name, "feature")
    column = Column(name, "number" if role == "feature" else role)
    try:
        if role == "feature":
            read = _feature(values, column, chosen, date_form)
        else:
            read = _with_role(values, column, chosen.task)
    except DataError as error:
        problem, _, remedy = str(error).partition(". ")
        return ReadColumn(column, problem=problem, remedy=remedy.rstrip("."))
    is_kept = name in chosen.keep and not (read.values is None and read.words is None)
    return read if is_kept or not read.reason else left_out(read, read.reason)


def _with_role(values: pa.ChunkedArray, column: Column, task: Task | None) -> ReadColumn:
    kind = values.type.value_type if pt.is_dictionary(values.type) else values.type
    if _is_string(kind):
        words = as_arrow(_decoded(values, column.name), f"column {column.name!r}")
        if column.read_as == "target":
            return of_words(words, column, task)
        is_missing = words.is_null().to_numpy(zero_copy_only=False)
        if is_missing.any():
            return without_values(column, is_missing)
        return ReadColumn(column, words=words)
    if _is_plain(kind):
        return of_numbers(_decoded(values, column.name), column)
    remedy = "Turn it into a number, such as days since a date, or into labels"
    return _refused(column, kind, "numbers, booleans or strings", remedy)


def _feature(
    values: pa.ChunkedArray, column: Column, chosen: Choices, date_form: str | None
) -> ReadColumn:
    name, is_category = column.name, pt.is_dictionary(values.type)
    kind = values.type.value_type if is_category else values.type
    if name in chosen.drop:
        return ReadColumn(replace(column, missing=values.null_count), reason="dropped, as asked")
    if _is_numbers(kind):
        return of_lists(values, replace(column, read_as="vector"))
    if not (_is_string(kind) or _is_plain(kind) or are_dates(kind) or _is_span(kind)):
        remedy = "Take it apart into columns of its own, write it as text (UTF-8), or drop it"
        return _refused(column, kind, "numbers, booleans, dates or strings", remedy)
    if values.null_count == len(values):
        return ReadColumn(replace(column, missing=len(values)), reason="all values are missing")
    if name in chosen.text or name in chosen.categorical or is_category:
        words = _as_words(_decoded(values, name), name)
        if name in chosen.text:
            return as_text(words, column)
        if name in chosen.categorical:
            return as_category(words, column)
        return of_words(words, column, None, is_category=True)
    if _is_string(kind):
        words = as_arrow(values, f"column {name!r}")
        return of_date_words(words, column, date_form) or of_words(words, column, None)
    return of_dates(values, column) if are_dates(kind) else of_numbers(values, column)


def _as_words(values: pa.ChunkedArray, name: str) -> pa.LargeStringArray:
    """Values as the text that a .csv would have of them; whole numbers without a fraction."""
    if pt.is_floating(values.type):
        whole = pc.all(pc.equal(values, pc.floor(values))).as_py()  # type: ignore[attr-defined]
        values = pc.if_else(pc.is_nan(values), None, values)  # type: ignore[attr-defined]
        values = values.cast(pa.int64(), safe=False) if whole else values
    return as_arrow(values.cast(pa.large_string()), f"column {name!r}")


def _decoded(values: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Values that are stored once each, each where it belongs."""
    if not pt.is_dictionary(values.type):
        return values
    if not _is_string(values.type.value_type):
        return values.cast(values.type.value_type)
    parts = [(c.dictionary.cast(pa.large_string()), c.indices) for c in values.chunks]
    lengths = (pc.binary_length(words).take(rows) for words, rows in parts)  # type: ignore[attr-defined]
    size = sum(pc.sum(each).as_py() or 0 for each in lengths)  # type: ignore[attr-defined]
    check_fits(2.0 * size, f"column {name!r}")
    return pa.chunked_array([words.take(rows) for words, rows in parts], pa.large_string())


def _refused(column: Column, kind: pa.DataType, rule: str, remedy: str) -> ReadColumn:
    problem = f"column {column.name!r} must hold {rule}; got {kind}"
    return ReadColumn(column, problem=problem, remedy=remedy)


def _is_numbers(kind: pa.DataType) -> bool:
    """Whether values are lists of numbers."""
    is_list = pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind)
    return is_list and (pt.is_floating(kind.value_type) or pt.is_integer(kind.value_type))


def _is_plain(kind: pa.DataType) -> bool:
    plain = pt.is_null(kind) or pt.is_boolean(kind) or pt.is_integer(kind) or pt.is_floating(kind)
    return plain or pt.is_decimal(kind)


def _is_span(kind: pa.DataType) -> bool:
    return pt.is_time(kind) or pt.is_duration(kind)


def _is_string(kind: pa.DataType) -> bool:
    return pt.is_string(kind) or pt.is_large_string(kind) or str(kind) == "string_view"
