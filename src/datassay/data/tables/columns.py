"""Columns of a table: what each is (a number, a date, a category, a text), or what is wrong."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from datassay.data.samples import Column
from datassay.data.source import Task, check_fits
from datassay.data.strings import as_arrow
from datassay.data.tables.dates import are_dates, read_date_words, read_dates, times_of_day
from datassay.data.tables.numerals import SHARE, NumberWords, matches, number_words
from datassay.data.tables.numeric import (
    check_numbers,
    find_missing_code,
    insert_missing,
    read_code_as_missing,
    read_lists,
    read_numbers,
    stray_words,
)
from datassay.data.tables.read import Choices, ReadColumn, report_missing
from datassay.data.targets import MAX_GUESSED_CLASSES
from datassay.errors import DataError
from datassay.optional import inflect, text_if

LONGEST_KIND = 40  # characters of a type that a note names
LONGEST_CATEGORY = 200  # characters; a longer one is a text
SENTENCE = 3  # words on average, from which strings that mostly differ are sentences
MOSTLY = 0.5  # of the strings differ
NEARLY_ALL = 0.9  # of the strings differ: they name rows
FEW_ROWS = 10  # in which strings may all differ by chance
# Scripts without spaces: a character counts as a word.
_WORD = r"[\x{3040}-\x{9FFF}\x{0E00}-\x{0EFF}]|[^\s\x{3040}-\x{9FFF}\x{0E00}-\x{0EFF}]+"
_HEAD = 64  # characters by which strings are distinguished
_NAME = r"^\s*[A-Za-z]*\d+[A-Za-z]+\w*\s*$|^\s*[A-Za-z]+\w*\d\w*\s*$"  # letters and digits
STRAY = (
    "Correct those values or drop their rows; if the column holds names made of digits, write a "
    "letter before each, or pass it as categorical"
)

# 2h 30m, 5'11", 3/4, 1 1/2, 2.5 x 10^4, 3.2 ± 0.1: quantities that are not read as numbers.
_NUMBER = r"[-+]?\d+(?:[.,]\d+)?"
QUANTITY = (
    rf"^(?:\d+ ?h(?: ?\d+ ?m(?:in)?)?|\d+ ?'(?: ?\d+ ?\"?)?|(?:\d+ )?\d+/\d+|"
    rf"{_NUMBER} ?[x×*] ?10\^?[-+]?\d+|{_NUMBER} ?(?:±|\+/-) ?{_NUMBER})$"
)


def read_column(values: pa.ChunkedArray, name: str, choices: Choices) -> ReadColumn:
    """Return a column read by its role or what it holds; the user's choices come first."""
    role = choices.roles.get(name, "feature")
    column = Column(name, "number" if role == "feature" else role)
    try:
        if name in choices.drop:
            column = replace(column, missing=values.null_count)
            read = ReadColumn(column, reason="dropped, as asked")
        elif role == "feature":
            read = _read_feature(values, column, choices)
        else:
            read = _read_role(values, column, choices)
    except DataError as error:
        problem, _, remedy = str(error).partition(". ")
        return ReadColumn(column, problem=problem, remedy=remedy.rstrip("."))
    is_kept = name in choices.keep and not (read.values is None and read.words is None)
    if is_kept or not read.reason:
        return read
    note = "; ".join(filter(None, (read.reason, read.column.note)))
    column = replace(read.column, read_as="left out", n_values=None, note=note)
    return replace(read, column=column, reason="")  # with its values: they may tell the target


def _read_role(values: pa.ChunkedArray, column: Column, choices: Choices) -> ReadColumn:
    """Return a target, ids, groups or time column, read; raise if its values do not suit."""
    kind = values.type
    if pt.is_dictionary(kind):
        kind = kind.value_type
    is_time = column.read_as == "time"
    as_feature = replace(column, read_as="number")
    if is_time and are_dates(kind):
        return _check_times(read_dates(values, as_feature, in_utc=True), column)
    is_name = column.read_as in {"ids", "source", "groups"} and not pt.is_integer(kind)
    if is_name and (_is_plain(kind) or are_dates(kind)):
        values = _as_names(decode_column(values, column.name))
        kind = values.type
    if _is_string(kind):
        words = as_arrow(decode_column(values, column.name), f"column {column.name!r}")
        if is_time and not words.null_count:
            return _check_times(read_date_words(words, as_feature, in_utc=True), column)
        if column.read_as == "target":
            return read_words(words, column, choices)
        if words.null_count:
            return report_missing(column, words.is_null().to_numpy(zero_copy_only=False))
        return ReadColumn(column, words=words)
    if _is_plain(kind):
        return read_numbers(decode_column(values, column.name), column)
    raise DataError(
        f"column {column.name!r} must hold numbers, booleans or strings; got {kind}. Turn it into "
        "a number, such as days since a date, or into labels."
    )


def _check_times(read: ReadColumn | Column, column: Column) -> ReadColumn:
    """Return a column of times; with a problem if some are missing; raise if it holds none."""
    if not isinstance(read, ReadColumn) or read.values is None:
        raise DataError(
            f"column {column.name!r} must hold dates or numbers to be the time; it holds other "
            "words. Name another column."
        )
    is_missing = np.isnat(read.values)
    if is_missing.any():
        return report_missing(column, is_missing)
    return ReadColumn(column, read.values, warning=read.warning)


def _read_feature(values: pa.ChunkedArray, column: Column, choices: Choices) -> ReadColumn:
    """Return a feature column read by its type, or the reason to leave it out."""
    name = column.name
    is_category = pt.is_dictionary(values.type)
    kind = values.type.value_type if is_category else values.type
    problem = _describe_unusable(values, kind)
    if problem:
        if name in {*choices.keep, *choices.categorical, *choices.text}:
            raise DataError(
                f"column {name!r} must hold numbers, booleans, dates or strings; it holds "
                f"{problem}. Take it apart into columns of its own, or write it as text (UTF-8)."
            )
        return ReadColumn(column, reason=f"it holds {problem}", warning=problem)
    if _is_list(kind):
        return read_lists(values, replace(column, read_as="vector"))
    if values.null_count == len(values):
        return ReadColumn(replace(column, missing=len(values)), reason="all values are missing")
    if name in choices.text or name in choices.categorical or is_category:
        words = _to_strings(decode_column(values, name), name)
        if name in choices.text:
            return as_text(words, column)
        if name in choices.categorical:
            return as_category(words, column)
        return _read_as_category_or_text(words, column, is_category=True)
    if _is_string(kind):
        return _read_strings(as_arrow(values, f"column {name!r}"), column, choices)
    has_comma = choices.decimal == "," and pt.is_floating(kind)
    column = replace(column, form="1.234,5") if has_comma else column
    if are_dates(kind):
        return read_dates(values, column)
    return _mark_missing_code(read_numbers(values, column), choices)


def _mark_missing_code(read: ReadColumn, choices: Choices) -> ReadColumn:
    """Return numbers with a code such as -999 replaced by NaN, if the column has one."""
    name = read.column.name
    code = None
    if name in choices.earlier:
        code = choices.earlier[name].missing_code
    elif name not in choices.keep:
        code = find_missing_code(read)
    return read_code_as_missing(read, code)


def _is_list(kind: pa.DataType) -> bool:
    """Return whether a type is one of lists."""
    return pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind)


def _describe_unusable(values: pa.ChunkedArray, kind: pa.DataType) -> str:
    """Return why no feature can be made of the column's type; "" if one can."""
    if _is_list(kind) and (pt.is_floating(kind.value_type) or pt.is_integer(kind.value_type)):
        n_lengths = len(pc.list_value_length(values.drop_null()).unique())
        if n_lengths > 1:
            return "lists of unequal lengths"
        return ""
    is_span = pt.is_time(kind) or pt.is_duration(kind)
    if _is_string(kind) or _is_plain(kind) or are_dates(kind) or is_span:
        return ""
    return f"values of type {str(getattr(kind, 'extension_name', kind))[:LONGEST_KIND]}"


def _read_strings(words: pa.LargeStringArray, column: Column, choices: Choices) -> ReadColumn:
    """Return a feature column of strings, read as times, dates, numbers, categories or text."""
    times = times_of_day(words)
    if times is not None:
        return read_numbers(times, column)
    form = choices.form_of(column.name)
    read = read_date_words(words, column, text_if(form[:1] != "1", form))
    if isinstance(read, ReadColumn):
        return read
    return read_words(words, read, choices)


def _as_names(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return numbers, flags or dates that name rows as whole numbers, else as words."""
    if pt.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), None, values)
    if not pt.is_boolean(values.type) and not are_dates(values.type):
        with suppress(pa.ArrowInvalid):  # some have a fraction
            return values.cast(pa.int64())
    return values.cast(pa.large_string())


def _to_strings(values: pa.ChunkedArray, name: str) -> pa.LargeStringArray:
    """Return values as a .csv would write them; whole numbers without a fraction."""
    if pt.is_floating(values.type):
        is_whole = pc.all(pc.equal(values, pc.floor(values))).as_py()
        values = pc.if_else(pc.is_nan(values), None, values)
        if is_whole:
            values = values.cast(pa.int64(), safe=False)
    return as_arrow(values.cast(pa.large_string()), f"column {name!r}")


def decode_column(values: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Return a dictionary-encoded column decoded; other columns unchanged."""
    if not pt.is_dictionary(values.type):
        return values
    if not _is_string(values.type.value_type):
        return values.cast(values.type.value_type)
    parts = [(c.dictionary.cast(pa.large_string()), c.indices) for c in values.chunks]
    lengths = (pc.binary_length(words).take(rows) for words, rows in parts)
    size = sum(pc.sum(length).as_py() or 0 for length in lengths)
    check_fits(2.0 * size, f"column {name!r}")
    return pa.chunked_array([words.take(rows) for words, rows in parts], pa.large_string())


def _is_plain(kind: pa.DataType) -> bool:
    """Return whether a type is one of numbers, booleans or nulls."""
    is_number = pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind)
    return is_number or pt.is_null(kind) or pt.is_boolean(kind)


def _is_string(kind: pa.DataType) -> bool:
    """Return whether a type is one of strings."""
    return pt.is_string(kind) or pt.is_large_string(kind) or str(kind) == "string_view"


def read_words(words: pa.LargeStringArray, column: Column, choices: Choices) -> ReadColumn:
    """Return a column of strings read as numbers, categories, texts or labels."""
    # It is one of numbers if SHARE of its strings read as numbers, marks of missing values aside,
    # and none starts with a zero (a code); the others are then in error. A target of a few numbers
    # may name classes. A note says what is like a number in a column that is not one of numbers.
    is_target = column.read_as == "target"
    form = choices.form_of(column.name)
    read = number_words(words, text_if(form[:1] == "1", form), choices.decimal)
    are_numbers = read.is_mostly and not read.is_code
    if is_target:
        are_numbers = _are_numbers(words, read, choices.task)
    if are_numbers:
        return _read_number_words(words, read, column)
    share = read.readable_share
    note = column.note
    if share >= 0.5:
        note = f"{share:.0%} of the values are numbers"
    if read.is_code:
        note = "digits with leading zeros are a code"
    if not note and matches(words, QUANTITY).mean() >= SHARE:
        note = "durations, lengths, fractions and numbers with an error are words here"
    warning = note + text_if(share >= SHARE, ", but not by one way of writing")
    column = replace(column, note=note, missing=words.null_count)
    if not is_target:
        result = _read_as_category_or_text(words, column)
        if note and not read.is_code:  # measured, though in several ways of writing
            return replace(result, warning=warning, names_rows=False)
        return replace(result, warning="")
    if words.null_count:
        return report_missing(column, words.is_null().to_numpy(zero_copy_only=False))
    if read.is_mostly and not read.is_code and not read.is_number.all():  # maybe mistakes
        fault = inflect((~read.is_number).sum(), "no number", "no numbers")
        note = f"labels; {stray_words(words, read.is_number, fault)}"
    warning = text_if(
        read.number_format, f"{words[0]}, ... name classes; with task regression they are numbers"
    )
    return ReadColumn(replace(column, note=note), words=words, warning=warning)


def _are_numbers(words: pa.LargeStringArray, read: NumberWords, task: Task | None) -> bool:
    """Return whether a target of strings is numeric; few distinct values are class names."""
    if task == "regression" or not read.is_mostly:
        return read.is_mostly
    is_plain = bool(read.is_number.all()) and not read.is_code
    if len(words.unique()) > MAX_GUESSED_CLASSES:
        return is_plain or task is None
    # A few whole ones with a unit or marks of thousands, as 10% and 1,000, name classes as written.
    is_named = bool(read.number_format) and bool((read.values[read.is_number] % 1 == 0).all())
    return is_plain and not is_named


def _read_number_words(words: pa.LargeStringArray, read: NumberWords, column: Column) -> ReadColumn:
    """Return a column of strings as numbers, or with the problem of those that are none."""
    is_known = read.is_number | read.is_mark
    is_target = column.read_as == "target"
    strays = stray_words(words, is_known, "no number")
    is_stray_name = ~is_known & matches(words, _NAME)
    if strays and (is_target or (not read.number_format and is_stray_name.any())):
        problem = (
            f"column {column.name!r} is one of numbers ({read.is_number.sum()} of {len(words)} "
            f"values are), but {stray_words(words, is_known)}"
        )
        return ReadColumn(column, problem=problem, remedy=STRAY)
    note = "strings of numbers"
    if read.is_mark.any():
        marks = words.filter(pa.array(read.is_mark)).unique().to_pylist()
        note = f"{', '.join(map(repr, sorted(marks)))} read as missing"
    warning = ""
    if read.number_format:
        longest = pc.utf8_length(words.filter(pa.array(read.is_number)))
        row = int(np.flatnonzero(read.is_number)[np.argmax(longest.to_numpy())])
        warning = f"{words[row].as_py()!r} is {read.values[row]:,.15g}"
    warning = "; ".join(filter(str.strip, [warning, *read.notes, strays]))
    note += text_if(read.number_format, f", as {read.number_format}")
    column = replace(column, note=note, form=read.number_format)
    if is_target and not read.is_number.all():
        return report_missing(column, ~read.is_number)
    result = check_numbers(read.values[read.is_number], column)
    if not read.is_number.all():
        result = insert_missing(result, ~read.is_number)
    return replace(result, warning=warning, decimal=read.decimal, is_ambiguous=read.is_ambiguous)


def _read_as_category_or_text(
    words: pa.LargeStringArray, column: Column, *, is_category: bool = False
) -> ReadColumn:
    """Return strings read as categories if they are short and few distinct, else as texts."""
    # The rule must not depend on the order of the rows, nor hold long texts twice.
    column = replace(column, missing=words.null_count)
    n = len(words) - words.null_count
    if pc.max(pc.utf8_length(words)).as_py() > LONGEST_CATEGORY:
        return as_text(words, column)
    heads = pc.utf8_slice_codeunits(words, 0, _HEAD)
    n_distinct = pc.count_distinct(heads, mode="only_valid").as_py()
    n_words = pc.mean(pc.count_substring_regex(words, _WORD)).as_py()
    if n_words >= SENTENCE and n_distinct >= MOSTLY * n and n_distinct > 1 and not is_category:
        return as_text(words, column)
    read = as_category(words, column)
    if n >= FEW_ROWS and n_distinct >= NEARLY_ALL * n:
        reason = f"nearly every value differs ({n_distinct:,} of {n:,}), so it names rows"
        return replace(read, reason=reason, names_rows=True)
    if read.column.n_values == 1 and not words.null_count:
        return replace(read, reason=f"all values are {words[0].as_py()!r}")
    return read


def as_category(words: pa.LargeStringArray, column: Column) -> ReadColumn:
    """Return a column of strings as one of categories."""
    k = pc.count_distinct(words, mode="only_valid").as_py()
    column = replace(column, read_as="category", n_values=k, missing=words.null_count)
    return ReadColumn(column, words=words)


def as_text(words: pa.LargeStringArray, column: Column) -> ReadColumn:
    """Return a column of strings, read as texts; a missing one is empty."""
    column = replace(column, read_as="text", missing=words.null_count)
    return ReadColumn(column, words=words.fill_null("") if words.null_count else words)
