"""Columns of dates: ISO and other common forms of strings, and Arrow's own types."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from datassay.data.samples import Column
from datassay.data.tables.number_words import SHARE, are_marks, stray_words
from datassay.data.tables.read import ReadColumn, without_values

_TIME = (
    r"(?:[ T](?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:\.\d{1,9})?))?"
    r" ?(?P<half>[AaPp][Mm])?(?P<zone>Z|[+-]\d{2}:?\d{2})?)?\s*$"
)
_YEAR, _MONTH, _DAY = r"(?P<year>\d{4})", r"(?P<month>\d{1,2})", r"(?P<day>\d{1,2})"
_NAME = r"(?P<month>[A-Za-z]{3,9})"
_SHORT = r"(?P<year>\d{4}|\d{2})"
# Of two forms that read as many values, the first is taken, and it is said.
FORMS = {
    "year-month-day": rf"^\s*{_YEAR}-{_MONTH}-{_DAY}{_TIME}",
    "year/month/day": rf"^\s*{_YEAR}/{_MONTH}/{_DAY}{_TIME}",
    "day.month.year": rf"^\s*{_DAY}\.{_MONTH}\.{_YEAR}{_TIME}",
    "month/day/year": rf"^\s*{_MONTH}/{_DAY}/{_SHORT}{_TIME}",
    "day/month/year": rf"^\s*{_DAY}/{_MONTH}/{_SHORT}{_TIME}",
    "day-month-year": rf"^\s*{_DAY}-{_MONTH}-{_YEAR}{_TIME}",
    "month-day-year": rf"^\s*{_MONTH}-{_DAY}-{_YEAR}{_TIME}",
    "day month year": rf"^\s*{_DAY}[ -]{_NAME}[ -]{_YEAR}{_TIME}",
    "month day, year": rf"^\s*{_NAME} {_DAY},? {_YEAR}{_TIME}",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# What every form looks like: a column without it costs one quick pass.
_ANY = r"^\s*(\d{1,4}[-/. ][\dA-Za-z]{1,9}[-/. ]\d{1,4}|[A-Za-z]{3,9} \d{1,2},? \d{4})"


def are_dates(kind: pa.DataType) -> bool:
    """Whether Arrow holds values of this type as dates or times; not so of times of the day."""
    return pt.is_date(kind) or pt.is_timestamp(kind)


def of_dates(values: pa.ChunkedArray, column: Column) -> ReadColumn:
    """A column of Arrow's dates as datetime64[us]; times with a zone are read in UTC."""
    # values: [n] dates or timestamps, nulls where they are missing.
    microseconds = values.cast(pa.timestamp("us", getattr(values.type, "tz", None)), safe=False)
    return _checked(microseconds.to_numpy().astype("datetime64[us]"), column)


def of_date_words(
    words: pa.LargeStringArray, column: Column, form: str | None = None
) -> ReadColumn | None:
    """A column of strings that are dates.

    Args:
        words: [n], nulls where they are missing.
        column: its name.
        form: one of FORMS; None: the one that reads most of them.

    Returns:
        The column, with a problem where 90 % are dates and others are not; None where fewer are.
    """
    n = len(words) - words.null_count
    like = pc.sum(pc.match_substring_regex(words, _ANY)).as_py() or 0  # type: ignore[attr-defined]
    if 2 * like < n or not like:
        return None
    is_mark = are_marks(words)
    read = {each: _parsed(words, each) for each in ([form] if form else FORMS)}
    best = max(read, key=lambda each: int((~np.isnat(read[each])).sum()))
    dates = read[best]
    count = int((~np.isnat(dates)).sum())
    if not count or count < SHARE * (n - is_mark.sum()):
        return None
    count, shown = stray_words(words, ~np.isnat(dates) | is_mark)
    if count:
        problem = (
            f"column {column.name!r} is one of dates ({(~np.isnat(dates)).sum()} of {len(words)} "
            f"values are), but {count} {'is none' if count == 1 else 'are none'}: {shown}"
        )
        return ReadColumn(column, problem=problem, remedy="Correct those values or drop their rows")
    others = [
        each for each in read if each != best and (np.isnat(read[each]) == np.isnat(dates)).all()
    ]
    also = f"; {others[0]} would read them, too" if others else ""
    found = _checked(dates, replace(column, note=f"dates as {best}{also}"))
    return replace(found, date_form=best)


def _checked(dates: np.ndarray, column: Column) -> ReadColumn:
    is_missing = np.isnat(dates)
    if column.read_as != "number":
        return without_values(column, is_missing)
    column = replace(column, read_as="date", missing=int(is_missing.sum()))
    present = dates[~is_missing]
    same = not is_missing.any() and present.min() == present.max()
    return ReadColumn(column, dates, reason=f"all values are {present[0]}" if same else "")


def _parsed(words: pa.LargeStringArray, form: str) -> np.ndarray:
    """[n] datetime64[us], NaT where a string is no date of that form."""
    parts = pc.extract_regex(words, FORMS[form])  # type: ignore[attr-defined]
    found = parts.is_valid().to_numpy(zero_copy_only=False)
    dates = np.full(len(words), np.datetime64("NaT", "us"))
    if not found.any():
        return dates
    parts = parts.filter(pa.array(found))
    year, day = _numbers(parts, "year"), _numbers(parts, "day")
    year = np.where(year < 69, year + 2000, np.where(year < 100, year + 1900, year))
    month = _months(parts.field("month"))
    first = (12 * (year - 1970) + np.clip(month, 1, 12) - 1).astype("datetime64[M]")
    day_of = first.astype("datetime64[D]") + (day - 1)
    hour, minute = _numbers(parts, "hour"), _numbers(parts, "minute")
    half = pc.utf8_lower(parts.field("half"))  # type: ignore[attr-defined]
    is_late = pc.equal(half, "pm").to_numpy(zero_copy_only=False)  # type: ignore[attr-defined]
    has_half = pc.not_equal(half, "").to_numpy(zero_copy_only=False)  # type: ignore[attr-defined]
    is_real = (day_of.astype("datetime64[M]") == first) & (day > 0) & (1 <= month) & (month <= 12)
    is_real &= (minute < 60) & (hour < 24) & (~has_half | ((1 <= hour) & (hour <= 12)))
    hour = np.where(has_half, hour % 12 + 12 * is_late, hour)
    seconds = 3600 * hour + 60 * minute - 60 * _zone(parts.field("zone"))
    micro = np.round(1e6 * _numbers(parts, "second", float)).astype(np.int64) + 10**6 * seconds
    times = day_of.astype("datetime64[us]") + micro.astype("timedelta64[us]")
    times[~is_real] = np.datetime64("NaT")
    dates[found] = times
    return dates


def _numbers(parts: pa.StructArray, name: str, kind: type = int) -> np.ndarray:
    """What stands there as numbers; 0 where nothing does."""
    words = parts.field(name)
    words = pc.if_else(pc.equal(words, ""), "0", words)  # type: ignore[attr-defined]
    return words.cast(pa.float64()).to_numpy().astype(kind)


def _months(words: pa.Array) -> np.ndarray:
    """1 to 12 of numbers or English names; 0 of what is none."""
    if pc.all(pc.match_substring_regex(words, r"^\d")).as_py():  # type: ignore[attr-defined]
        return words.cast(pa.int64()).to_numpy()
    heads = pc.utf8_slice_codeunits(pc.utf8_lower(words), 0, 3)  # type: ignore[attr-defined]
    names = pa.array(_MONTHS, heads.type)
    return pc.index_in(heads, names).fill_null(-1).to_numpy() + 1  # type: ignore[attr-defined]


def _zone(words: pa.Array) -> np.ndarray:
    """Minutes ahead of UTC."""
    codes = words.dictionary_encode()
    minutes = [_minutes(zone) for zone in codes.dictionary.to_pylist()]
    return np.array(minutes, dtype=np.int64)[codes.indices.to_numpy()]


def _minutes(zone: str) -> int:
    if zone in {"", "Z"}:
        return 0
    digits = zone[1:].replace(":", "")
    return (60 * int(digits[:2]) + int(digits[2:])) * (-1 if zone[0] == "-" else 1)
