"""Numbers written as words: whether a column of strings is a column of numbers, and what is not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datassay.results import result

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
