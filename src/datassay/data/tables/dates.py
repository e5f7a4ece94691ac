"""Columns of dates: ISO and other common forms of strings, and Arrow's own types."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from datassay.data.samples import Column
from datassay.data.tables.numerals import SHARE, are_marks
from datassay.data.tables.numeric import stray_words
from datassay.data.tables.read import ReadColumn, without_values

_TIME = (
    r"(?:[ T](?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:\.\d{1,9})?))?"
    r" ?(?P<half>[AaPp][Mm])?(?P<zone>Z|[+-]\d{2}:?\d{2})?)?\s*$"
)
_YEAR, _MONTH, _DAY = r"(?P<year>\d{4})", r"(?P<month>\d{1,2})", r"(?P<day>\d{1,2})"
_NAME = r"(?P<month>\p{L}{3,9})\.?"
_FIRST = r"(?P<day>)"  # of a month
_SHORT = r"(?P<year>\d{4}|\d{2})"
# Of two forms that read as many values, the first is taken, and it is said.
FORMS = {
    "year-month-day": rf"^\s*{_YEAR}-{_MONTH}-{_DAY}{_TIME}",
    "year/month/day": rf"^\s*{_YEAR}/{_MONTH}/{_DAY}{_TIME}",
    "year.month.day": rf"^\s*{_YEAR}\.{_MONTH}\.{_DAY}{_TIME}",
    "day.month.year": rf"^\s*{_DAY}\.{_MONTH}\.{_SHORT}{_TIME}",
    "month/day/year": rf"^\s*{_MONTH}/{_DAY}/{_SHORT}{_TIME}",
    "day/month/year": rf"^\s*{_DAY}/{_MONTH}/{_SHORT}{_TIME}",
    "day-month-year": rf"^\s*{_DAY}-{_MONTH}-{_YEAR}{_TIME}",
    "month-day-year": rf"^\s*{_MONTH}-{_DAY}-{_YEAR}{_TIME}",
    "day month year": rf"^\s*{_DAY}\.?[ -]{_NAME}[ -]{_YEAR}{_TIME}",
    "month day, year": rf"^\s*{_NAME} {_DAY},? {_YEAR}{_TIME}",
    "year-month": rf"^\s*{_YEAR}[-/]{_MONTH}{_FIRST}{_TIME}",
    "month/year": rf"^\s*{_MONTH}[-/]{_FIRST}{_YEAR}{_TIME}",
    "month year": rf"^\s*{_NAME}[ -]{_FIRST}{_YEAR}{_TIME}",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_GERMAN = {"mär": 3, "mrz": 3, "mai": 5, "okt": 10, "dez": 12}
OR = " or "  # between the forms of one column
# What every form looks like: a column without it costs one quick pass.
_ANY = (
    r"^\s*(\d{1,4}(\. |[-/. ])[\d\p{L}]{1,9}\.?[-/. ]\d{1,4}|\p{L}{3,9}\.?[ -](\d{1,2},? )?\d{4}|"
    r"\d{4}[-/]\d{1,2}\s*$|\d{1,2}[-/]\d{4}\s*$)"
)

_OF_DAY = r"^\s*(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?\s*$"


def are_dates(kind: pa.DataType) -> bool:
    """Whether Arrow holds values of this type as dates or times; not so of times of the day."""
    return pt.is_date(kind) or pt.is_timestamp(kind)


def of_dates(values: pa.ChunkedArray, column: Column, *, in_utc: bool = False) -> ReadColumn:
    """A column of Arrow's dates as datetime64[us]; times with a zone as clocks there have them."""
    zone = getattr(values.type, "tz", None)
    microseconds = values.cast(pa.timestamp("us", zone), safe=False)
    if zone is not None and not in_utc:
        microseconds = pc.local_timestamp(microseconds)
    return _checked(microseconds.to_numpy().astype("datetime64[us]"), column)


def times_of_day(words: pa.LargeStringArray) -> pa.ChunkedArray | None:
    """Words such as 09:30 or 9:30:15 as Arrow's times; None where one is something else."""
    parts = pc.extract_regex(words, _OF_DAY)
    if parts.null_count > words.null_count or words.null_count == len(words):
        return None
    parts = parts.fill_null({"hour": "0", "minute": "0", "second": "0"})
    hour, minute, second = (_numbers(parts, name) for name in ("hour", "minute", "second"))
    seconds = (3600 * hour + 60 * minute + second).astype(np.int32)
    is_missing = words.is_null().to_numpy(zero_copy_only=False)
    return pa.chunked_array([pa.array(seconds, mask=is_missing).cast(pa.time32("s"))])


def of_date_words(
    words: pa.LargeStringArray, column: Column, form: str = "", *, in_utc: bool = False
) -> ReadColumn | Column:
    """A column of strings of which 90 % are dates; the column, maybe noted, where fewer are."""
    # form: those of FORMS by which it was read before; empty: those that read most, one after the
    # other, but never both of two that would exchange day and month.
    known = len(words) - words.null_count
    like = pc.sum(pc.match_substring_regex(words, _ANY)).as_py() or 0
    if (2 * like < known and not form) or not like:
        return column
    coded = words.dictionary_encode()
    distinct, rows = coded.dictionary, coded.indices.fill_null(len(coded.dictionary)).to_numpy()
    n = np.bincount(rows, minlength=len(distinct) + 1)[:-1] * ~are_marks(distinct)  # times each
    forms = form.split(OR) if form else FORMS
    read = {each: _parsed(distinct, each, in_utc=in_utc) for each in forms}
    dates, used, open_forms = np.full(len(distinct), np.datetime64("NaT", "us")), [], list(read)
    while open_forms:
        gain = {each: n[np.isnat(dates) & ~np.isnat(read[each])].sum() for each in open_forms}
        best = open_forms[0] if form else max(open_forms, key=gain.__getitem__)
        if not gain[best] and not form:
            break
        used.append(best)
        dates = np.where(np.isnat(dates), read[best], dates)
        open_forms = [each for each in open_forms if each not in {best, _twin(best)}]
    share = n[~np.isnat(dates)].sum() / max(n.sum(), 1)
    if share < SHARE and not (form and share):
        note = f"{share:.0%} of the values are dates" if share >= 0.5 else ""
        return replace(column, note=note)
    full = np.append(dates, np.datetime64("NaT", "us"))[rows]
    also = [
        f"{_twin(one)} would read them, too"
        for one in used
        if _twin(one) in read and (np.isnat(read[_twin(one)]) <= np.isnat(read[one])).all()
    ]
    strays = stray_words(words, ~np.isnat(full) | are_marks(words), "no date")
    written = OR.join(used)
    note = "; ".join([f"dates as {written}", *also])
    parts = [written, *also, *[strays] * bool(strays)]
    told = "; ".join(parts) if len(parts) > 1 or used[1:] else ""
    return replace(_checked(full, replace(column, note=note, form=written)), told=told)


def _twin(form: str) -> str:
    """The form with day and month exchanged."""
    return form.replace("month", "\0").replace("day", "month").replace("\0", "day")


def _checked(dates: np.ndarray, column: Column) -> ReadColumn:
    is_missing = np.isnat(dates)
    if column.read_as != "number":
        return without_values(column, is_missing)
    column = replace(column, read_as="date", missing=int(is_missing.sum()))
    present = dates[~is_missing]
    same = not is_missing.any() and present.min() == present.max()
    return ReadColumn(column, dates, reason=f"all values are {present[0]}" if same else "")


def _parsed(words: pa.LargeStringArray, form: str, *, in_utc: bool) -> np.ndarray:
    """[n] datetime64[us], NaT where a string is no date of that form."""
    parts = pc.extract_regex(words, FORMS[form])
    result = parts.is_valid().to_numpy(zero_copy_only=False)
    dates = np.full(len(words), np.datetime64("NaT", "us"))
    if not result.any():
        return dates
    parts = parts.filter(pa.array(result))
    year, day = _numbers(parts, "year"), _numbers(parts, "day")
    day += pc.equal(parts.field("day"), "").to_numpy(zero_copy_only=False)
    year = np.where(year < 69, year + 2000, np.where(year < 100, year + 1900, year))
    month = _months(parts.field("month"))
    first = (12 * (year - 1970) + np.clip(month, 1, 12) - 1).astype("datetime64[M]")
    day_of = first.astype("datetime64[D]") + (day - 1)
    hour, minute = _numbers(parts, "hour"), _numbers(parts, "minute")
    half = pc.utf8_lower(parts.field("half"))
    is_late = pc.equal(half, "pm").to_numpy(zero_copy_only=False)
    has_half = pc.not_equal(half, "").to_numpy(zero_copy_only=False)
    is_real = (day_of.astype("datetime64[M]") == first) & (day > 0) & (1 <= month) & (month <= 12)
    is_real &= (minute < 60) & (hour < 24) & (~has_half | ((1 <= hour) & (hour <= 12)))
    hour = np.where(has_half, hour % 12 + 12 * is_late, hour)
    seconds = 3600 * hour + 60 * minute
    if in_utc:  # else as clocks there have them
        seconds -= 60 * _zone(parts.field("zone"))
    micro = np.round(1e6 * _numbers(parts, "second", float)).astype(np.int64) + 10**6 * seconds
    times = day_of.astype("datetime64[us]") + micro.astype("timedelta64[us]")
    times[~is_real] = np.datetime64("NaT")
    dates[result] = times
    return dates


def _numbers(parts: pa.StructArray, name: str, kind: type = int) -> np.ndarray:
    """What stands there as numbers; 0 where nothing does."""
    words = parts.field(name)
    words = pc.if_else(pc.equal(words, ""), "0", words)
    return words.cast(pa.float64()).to_numpy().astype(kind)


def _months(words: pa.Array) -> np.ndarray:
    """1 to 12 of numbers or English names; 0 of what is none."""
    if pc.all(pc.match_substring_regex(words, r"^\d")).as_py():
        return words.cast(pa.int64()).to_numpy()
    heads = pc.utf8_slice_codeunits(pc.utf8_lower(words), 0, 3)
    names = pa.array([*_MONTHS, *_GERMAN], heads.type)
    position = pc.index_in(heads, names).fill_null(-1).to_numpy()
    return np.array([0, *range(1, 13), *_GERMAN.values()])[position + 1]


def _zone(words: pa.Array) -> np.ndarray:
    """Minutes ahead of UTC of zones such as "", "Z" and "+02:00"."""
    codes, minutes = words.dictionary_encode(), []
    for zone in codes.dictionary.to_pylist():
        digits = zone[1:].replace(":", "") or "0000"
        minutes.append(
            (60 * int(digits[:2]) + int(digits[2:])) * (-1 if zone.startswith("-") else 1)
        )
    return np.array(minutes, dtype=np.int64)[codes.indices.to_numpy()]


PARTS = ("year", "month", "weekday", "hour", "days")
