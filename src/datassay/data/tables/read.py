"""One column as it was read: its values, or what is wrong with it, or why it is left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pyarrow as pa

from datassay.data.samples import Column
from datassay.results import result

SHOWN = 5  # rows that an error names
Role = Literal["feature", "target", "ids", "source"]
QUOTE = 'in .csv, quote a text that reads as missing: "NA"'


@result
class ReadColumn:
    """One column as read.

    Attributes:
        column: how it was read.
        values: [n] numbers or booleans as they are stored, float64 with NaN where some are missing;
            datetime64[us] of dates; [n, m] of lists of numbers; None where it holds words, or is
            not used.
        words: [n] strings, nulls where they are missing; None where it holds numbers, or is not
            used.
        is_missing: [n] bool, of a target with missing values, whose values are not read then.
        problem: what is wrong, so that the table cannot be used; empty: nothing.
        remedy: what to do about it.
        reason: why our rules leave it out; empty: they do not.
        date_form: of dates that were strings, as `dates.FORMS` names it.
    """

    column: Column
    values: np.ndarray | None = None
    words: pa.LargeStringArray | None = None
    is_missing: np.ndarray | None = None
    problem: str = ""
    remedy: str = ""
    reason: str = ""
    date_form: str = ""


def left_out(read: ReadColumn, why: str) -> ReadColumn:
    """The same column, left out, without its values."""
    also = f"; {read.column.note}" if read.column.note else ""
    return ReadColumn(replace(read.column, read_as="left out", n_values=None, note=why + also))


def without_values(column: Column, is_missing: np.ndarray) -> ReadColumn:
    """A column that must not have missing values, and has: a target's rows can be left out.

    Args:
        column: the target, ids or source.
        is_missing: [n] bool.

    Returns:
        The column, without values; with a problem unless it is a target of which some are known.
    """
    column = replace(column, missing=int(is_missing.sum()))
    if column.read_as == "target" and not is_missing.all():
        return ReadColumn(column, is_missing=is_missing)
    problem = (
        f"column {column.name!r} must have no missing values; {is_missing.sum()} of "
        f"{len(is_missing)} are missing ({rows_of(is_missing)})"
    )
    return ReadColumn(column, problem=problem, remedy=f"Fill them in or drop those rows ({QUOTE})")


def rows_of(mask: np.ndarray) -> str:
    """Which rows, for an error."""
    rows = np.flatnonzero(mask)
    word = "row" if len(rows) == 1 else "rows"
    return f"{word} {', '.join(map(str, rows[:SHOWN]))}{', ...' * (len(rows) > SHOWN)}"
