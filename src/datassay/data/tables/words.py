"""Columns of strings: numbers, codes, categories, sentences, or names of rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datassay.data.samples import Column
from datassay.data.source import Task
from datassay.data.tables.numeric import (
    SHARE,
    NumberWords,
    checked,
    number_words,
    stray_words,
    with_missing,
)
from datassay.data.tables.read import ReadColumn, without_values
from datassay.data.targets import MAX_GUESSED_CLASSES

LONGEST_CATEGORY = 200  # characters; a longer one is a text
SENTENCE = 3  # words on average, from which strings that mostly differ are sentences
MOSTLY = 0.5  # of the strings differ
NEARLY_ALL = 0.9  # of the strings differ: they name rows
FEW_ROWS = 10  # in which strings may all differ by chance
# Scripts without spaces: a character counts as a word.
_WORD = r"[\x{3040}-\x{9FFF}\x{0E00}-\x{0EFF}]|[^\s\x{3040}-\x{9FFF}\x{0E00}-\x{0EFF}]+"
_HEAD = 64  # characters by which strings are told apart
STRAY = (
    "Correct those values or drop their rows; if the column holds names made of digits, write a "
    "letter before each, or pass it as categorical"
)


def of_words(
    words: pa.LargeStringArray, column: Column, task: Task | None, *, is_category: bool = False
) -> ReadColumn:
    """A column of strings that are no dates.

    Strings of which 90 % read as numbers are numbers, marks of missing values aside, and the others
    of them in error; unless one starts with a zero (a code), or it is a target of labels.

    Args:
        words: [n], nulls where they are missing.
        column: its name and role, feature or target.
        task: of a target, where the user names it.
        is_category: whether the table says that these are categories.

    Returns:
        The column.
    """
    is_target = column.read_as == "target"
    if is_category:
        return _category_or_text(words, column, is_category=True)
    read = number_words(words)
    if _are_numbers(words, read, task) if is_target else read.is_mostly and not read.is_code:
        return _numbers(words, read, column)
    note = "digits with leading zeros are a code" if read.is_code else _share_note(read)
    column = replace(column, note=note, missing=words.null_count)
    if not is_target:
        return _category_or_text(words, column)
    if words.null_count:
        return without_values(column, words.is_null().to_numpy(zero_copy_only=False))
    return ReadColumn(replace(column, note=note or _stray_labels(words, read)), words=words)


def _are_numbers(words: pa.LargeStringArray, read: NumberWords, task: Task | None) -> bool:
    """Whether a target is one of numbers; one of few distinct words names classes."""
    if task is not None or not read.is_mostly:
        return task == "regression" and read.is_mostly
    is_plain = bool(read.is_number.all()) and not read.is_code
    return is_plain or len(words.unique()) > MAX_GUESSED_CLASSES


def _numbers(words: pa.LargeStringArray, read: NumberWords, column: Column) -> ReadColumn:
    if read.values is None:
        count, shown = stray_words(words, read.is_number | read.is_mark)
        problem = (
            f"column {column.name!r} is one of numbers ({read.is_number.sum()} of {len(words)} "
            f"values are), but {count} {'is none' if count == 1 else 'are none'}: {shown}"
        )
        return ReadColumn(column, problem=problem, remedy=STRAY)
    note = "strings of numbers"
    if read.is_mark.any():
        marks = words.filter(pa.array(read.is_mark)).unique().to_pylist()
        note = f"{_quoted(marks)} read as missing"
    column = replace(column, note=note)
    if read.is_number.all():
        return checked(read.values, column)
    if column.read_as == "target":
        return without_values(column, ~read.is_number)
    return with_missing(checked(read.values[read.is_number], column), ~read.is_number)


def _quoted(marks: list[str]) -> str:
    return ", ".join(repr(mark) for mark in sorted(marks))


def _category_or_text(
    words: pa.LargeStringArray, column: Column, *, is_category: bool = False
) -> ReadColumn:
    # What tells them apart must not depend on the order of the rows, nor hold long texts twice.
    column = replace(column, missing=words.null_count)
    n = len(words) - words.null_count
    if pc.max(pc.utf8_length(words)).as_py() > LONGEST_CATEGORY:  # type: ignore[attr-defined]
        return as_text(words, column)
    heads = pc.utf8_slice_codeunits(words, 0, _HEAD)  # type: ignore[attr-defined]
    k = pc.count_distinct(heads, mode="only_valid").as_py()  # type: ignore[attr-defined]
    length = pc.mean(pc.count_substring_regex(words, _WORD)).as_py()  # type: ignore[attr-defined]
    if length >= SENTENCE and k >= MOSTLY * n and k > 1 and not is_category:
        return as_text(words, column)
    read = as_category(words, column)
    if n >= FEW_ROWS and k >= NEARLY_ALL * n:
        return replace(
            read, reason=f"nearly every value differs ({k:,} of {n:,}), so it names rows"
        )
    if read.column.n_values == 1 and not words.null_count:
        return replace(read, reason=f"all values are {words[0].as_py()!r}")
    return read


def as_category(words: pa.LargeStringArray, column: Column) -> ReadColumn:
    """A column of categories."""
    # words: [n], nulls where they are missing.
    k = pc.count_distinct(words, mode="only_valid").as_py()  # type: ignore[attr-defined]
    column = replace(column, read_as="category", n_values=k, missing=words.null_count)
    return ReadColumn(column, words=words)


def as_text(words: pa.LargeStringArray, column: Column) -> ReadColumn:
    """A column of texts; a missing one is empty."""
    # words: [n], nulls where they are missing.
    column = replace(column, read_as="text", missing=words.null_count)
    return ReadColumn(column, words=words.fill_null("") if words.null_count else words)


def _share_note(read: NumberWords) -> str:
    """That many of the words are numbers, where they are not most."""
    share = float(np.mean(read.is_number))
    return f"{share:.0%} of the values are numbers" if 0.5 <= share < SHARE else ""


def _stray_labels(words: pa.LargeStringArray, read: NumberWords) -> str:
    """Labels of which most are numbers: the ones that are not may be mistakes."""
    if not read.is_mostly or read.is_number.all():
        return ""
    count, shown = stray_words(words, read.is_number)
    return f"labels; {count} {'is no number' if count == 1 else 'are no numbers'}: {shown}"
