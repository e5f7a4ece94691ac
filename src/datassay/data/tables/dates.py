"""Columns of dates: ISO and other common forms of strings, and Arrow's own types."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from datassay.data.samples import Column
from datassay.data.tables.numerals import SHARE, are_marks
from datassay.data.tables.numeric import stray_words
from datassay.data.tables.read import ReadColumn, report_missing
from datassay.optional import text_if

_TIME = (
    r"(?:[ T](?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:\.\d{1,9})?))?"
    r" ?(?P<half>[AaPp][Mm])?(?P<zone>Z|[+-]\d{2}:?\d{2})?)?\s*$"
)
_YEAR = r"(?P<year>\d{4})"
_MONTH = r"(?P<month>\d{1,2})"
_DAY = r"(?P<day>\d{1,2})"
# ASCII's letters and all beyond ASCII: RE2 takes 6 ms to compile a repeated \p{L}, at each call.
_LETTER = r"[^\x00-@\[-`{-\x7F]"
_NAME = rf"(?P<month>{_LETTER}{{3,9}})\.?"
_FIRST = r"(?P<day>)"  # no day: the first of the month
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
    rf"^\s*(\d{{1,4}}(\. |[-/. ])(\d|{_LETTER}){{1,9}}\.?[-/. ]\d{{1,4}}|"
    rf"{_LETTER}{{3,9}}\.?[ -](\d{{1,2}},? )?\d{{4}}|"
    r"\d{4}[-/]\d{1,2}\s*$|\d{1,2}[-/]\d{4}\s*$)"
)

_OF_DAY = r"^\s*(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?\s*$"


def are_dates(kind: pa.DataType) -> bool:
    """Return whether Arrow holds values of this type as dates or times, not times of the day."""
    return pt.is_date(kind) or pt.is_timestamp(kind)


def read_dates(values: pa.ChunkedArray, column: Column, *, in_utc: bool = False) -> ReadColumn:
    """Return Arrow's dates as datetime64[us], in local time if they have a time zone."""
    zone = getattr(values.type, "tz", None)
    microseconds = values.cast(pa.timestamp("us", zone), safe=False)
    if zone is not None and not in_utc:
        microseconds = pc.local_timestamp(microseconds)
    return _check_dates(microseconds.to_numpy().astype("datetime64[us]"), column)


def times_of_day(words: pa.LargeStringArray) -> pa.ChunkedArray | None:
    """Return words such as 09:30 or 9:30:15 as Arrow's times; None if one is another word."""
    parts = pc.extract_regex(words, _OF_DAY)
    if parts.null_count > words.null_count or words.null_count == len(words):
        return None
    parts = parts.fill_null({"hour": "0", "minute": "0", "second": "0"})
    hour, minute, second = (_parse_part(parts, name) for name in ("hour", "minute", "second"))
    seconds = (3600 * hour + 60 * minute + second).astype(np.int32)
    is_missing = words.is_null().to_numpy(zero_copy_only=False)
    return pa.chunked_array([pa.array(seconds, mask=is_missing).cast(pa.time32("s"))])


def read_date_words(
    words: pa.LargeStringArray, column: Column, date_format: str = "", *, in_utc: bool = False
) -> ReadColumn | Column:
    """Return strings as a column of dates if 90 % are; else the column, perhaps with a note."""
    # date_format: the FORMS by which the column was read before; empty: those that read most, one
    # after the other, but never both of two that would exchange day and month.
    n_present = len(words) - words.null_count
    n_alike = pc.sum(pc.match_substring_regex(words, _ANY)).as_py() or 0
    if (2 * n_alike < n_present and not date_format) or not n_alike:
        return column
    encoded = words.dictionary_encode()
    distinct = encoded.dictionary
    codes = encoded.indices.fill_null(len(distinct)).to_numpy()
    counts = np.bincount(codes, minlength=len(distinct) + 1)[:-1]
    counts[are_marks(distinct)] = 0
    formats = FORMS
    if date_format:
        formats = date_format.split(OR)
    readings = {name: _parse_dates(distinct, name, in_utc=in_utc) for name in formats}
    dates = np.full(len(distinct), np.datetime64("NaT", "us"))
    used_formats = []
    candidates = list(readings)
    while candidates:  # the format that reads most of what no other has read, until none reads more
        gain = {c: counts[np.isnat(dates) & ~np.isnat(readings[c])].sum() for c in candidates}
        winner = candidates[0]
        if not date_format:
            winner = max(candidates, key=gain.__getitem__)
        if not gain[winner] and not date_format:
            break
        used_formats.append(winner)
        dates = np.where(np.isnat(dates), readings[winner], dates)
        candidates = [name for name in candidates if name not in {winner, _twin(winner)}]
    share = counts[~np.isnat(dates)].sum() / max(counts.sum(), 1)
    if share < SHARE and not (date_format and share):
        note = text_if(share >= 0.5, f"{share:.0%} of the values are dates")
        return replace(column, note=note)
    row_dates = np.append(dates, np.datetime64("NaT", "us"))[codes]
    twins = [(_twin(name), name) for name in used_formats]
    alternatives = [
        f"{twin} would read them, too"
        for twin, name in twins
        if twin in readings and (np.isnat(readings[twin]) <= np.isnat(readings[name])).all()
    ]
    strays = stray_words(words, ~np.isnat(row_dates) | are_marks(words), "no date")
    form = OR.join(used_formats)
    note = "; ".join([f"dates as {form}", *alternatives])
    parts = [form, *alternatives, *filter(None, [strays])]
    warning = text_if(len(parts) > 1 or used_formats[1:], "; ".join(parts))
    return replace(_check_dates(row_dates, replace(column, note=note, form=form)), warning=warning)


def _twin(date_format: str) -> str:
    """Return the format with day and month exchanged."""
    return date_format.replace("month", "\0").replace("day", "month").replace("\0", "day")


def _check_dates(dates: np.ndarray, column: Column) -> ReadColumn:
    """Return a column of dates: left out if constant; with a problem if a role lacks some."""
    is_missing = np.isnat(dates)
    if column.read_as != "number":
        return report_missing(column, is_missing)
    column = replace(column, read_as="date", missing=int(is_missing.sum()))
    present = dates[~is_missing]
    reason = ""
    if not is_missing.any() and present.min() == present.max():
        reason = f"all values are {present[0]}"
    return ReadColumn(column, dates, reason=reason)


def _parse_dates(words: pa.LargeStringArray, date_format: str, *, in_utc: bool) -> np.ndarray:
    """Return dates, [n] datetime64[us], NaT where a string is no date of that format."""
    parts = pc.extract_regex(words, FORMS[date_format])
    is_match = parts.is_valid().to_numpy(zero_copy_only=False)
    dates = np.full(len(words), np.datetime64("NaT", "us"))
    parts = parts.filter(pa.array(is_match))
    year = _parse_part(parts, "year")
    year = np.where(year < 69, year + 2000, np.where(year < 100, year + 1900, year))
    month = _parse_months(parts.field("month"))
    day = _parse_part(parts, "day")
    day += pc.equal(parts.field("day"), "").to_numpy(zero_copy_only=False)  # of a month, the first
    hour = _parse_part(parts, "hour")
    minute = _parse_part(parts, "minute")
    second = _parse_part(parts, "second", float)
    first_of_month = (12 * (year - 1970) + np.clip(month, 1, 12) - 1).astype("datetime64[M]")
    date = first_of_month.astype("datetime64[D]") + (day - 1)
    am_pm = pc.utf8_lower(parts.field("half"))
    is_pm = pc.equal(am_pm, "pm").to_numpy(zero_copy_only=False)
    has_half = pc.not_equal(am_pm, "").to_numpy(zero_copy_only=False)
    is_real = (1 <= month) & (month <= 12) & (day > 0)
    is_real &= date.astype("datetime64[M]") == first_of_month
    is_real &= (minute < 60) & (hour < 24) & (~has_half | ((1 <= hour) & (hour <= 12)))
    is_real &= second < 61  # 60: a leap second
    hour = np.where(has_half, hour % 12 + 12 * is_pm, hour)
    seconds = 3600 * hour + 60 * minute
    if in_utc:  # else as clocks there have them
        seconds -= 60 * _parse_zones(parts.field("zone"))
    microseconds = np.round(1e6 * second).astype(np.int64) + 10**6 * seconds
    times = date.astype("datetime64[us]") + microseconds.astype("timedelta64[us]")
    times[~is_real] = np.datetime64("NaT")
    dates[is_match] = times
    return dates


def _parse_part(parts: pa.StructArray, name: str, kind: type = int) -> np.ndarray:
    """Return one part of the regex matches as numbers, [n]; 0 where it is absent."""
    words = parts.field(name)
    words = pc.if_else(pc.equal(words, ""), "0", words)
    return words.cast(pa.float64()).to_numpy().astype(kind)


def _parse_months(words: pa.Array) -> np.ndarray:
    """Return months 1 to 12 from numbers or names, [n]; 0 for other words."""
    if pc.all(pc.match_substring_regex(words, r"^\d")).as_py():
        return words.cast(pa.int64()).to_numpy()
    heads = pc.utf8_slice_codeunits(pc.utf8_lower(words), 0, 3)
    names = pa.array([*_MONTHS, *_GERMAN], heads.type)
    position = pc.index_in(heads, names).fill_null(-1).to_numpy()
    months = np.array([0, *range(1, 13), *_GERMAN.values()])[position + 1]
    return months * pc.utf8_is_alpha(words).to_numpy(zero_copy_only=False)


def _parse_zones(words: pa.Array) -> np.ndarray:
    """Return minutes ahead of UTC, [n], of time zones such as "", "Z" and "+02:00"."""
    codes = words.dictionary_encode()
    minutes = []
    for zone in codes.dictionary.to_pylist():
        digits = zone[1:].replace(":", "") or "0000"
        sign = 1
        if zone.startswith("-"):
            sign = -1
        minutes.append(sign * (60 * int(digits[:2]) + int(digits[2:])))
    return np.array(minutes, dtype=np.int64)[codes.indices.to_numpy()]


PARTS = ("year", "month", "weekday", "hour", "days")
