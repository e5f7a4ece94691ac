"""Numbers among strings, each column by one dialect: its decimal mark, thousands and unit."""

import math
import re
from collections import Counter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datassay.optional import text_if
from datassay.results import result

# From this share on, a column of strings is one of numbers, and the rest of it is in error.
SHARE = 0.9
NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
MARK = r"(?i)^\s*(\?|-|na|n/a|nan|null|none)?\s*$"
_WHOLE = r"^\s*[-+]?\d{1,18}\s*$"
CODE = r"^\s*0\d+\s*$"
# What may be thousands behind a point, which whole numbers below 1,000 leave open.
GROUPED = r"^\s*[-+]?(0|[1-9]\d{0,2}(\.\d{3})?)\s*$"
# How 1234.5 is written, with its decimal mark and its mark of thousands. Of several that read as
# many values the first is taken.
DIALECTS = {f"1{mark[1]}234{mark[0]}5": mark for mark in (".,", ",.", ". ", ", ", ".'", ",'")}
FEW = 20  # distinct whole numbers with a unit of letters are categories, as "4 doors"
_MOST_TEMPLATES = 10_000
# Pattern → one spelling of what is written in several ways.
_SPELLINGS = [(r"[\x{A0}\x{2009}\x{202F}]", " "), ("[’`´]", "'"), ("[−–]", "-")]
_SPELLINGS += [(r"(\pL)2\s*$", r"\1²"), (r"(\pL)3\s*$", r"\1³")]
_NUMBER = r"(?P<body>[.,]?\d(?:[\d.,' ]*\d)?)(?P<power>[eE][-+]?\d+)?"
_SHAPE = rf"^(?:\D{{0,9}}\pL\.?\s*|\D{{0,9}}?){_NUMBER}\D{{0,14}}$"
_MONEY = (
    r"(?:[A-Z]{0,3}[$€£¥₹₽₩₺₴₪฿₫₱]|Rs|kr|Fr|zł|Kč|Ft|USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|"
    r"NOK|DKK|PLN|CZK|HUF|RON|BRL|MXN|ZAR|TRY|RUB|KRW|SGD|HKD|ILS|THB)"
)
# Units that only quantities have; or none.
_KNOWN_UNIT = re.compile(rf"(?:{_MONEY}|[%‰°])?")
_POWERS = {"k": 3, "tsd": 3, "thousand": 3, "m": 6, "mn": 6, "mio": 6, "mill": 6, "million": 6}
_POWERS |= {"b": 9, "bn": 9, "mrd": 9, "billion": 9}
# A word whose digits are written 9, a first 0 as _.
_WORD = re.compile(
    rf"(?P<head>[-+(<>≤≥~≈=\s]*)(?P<money>{_MONEY})?\.?(?P<mid>[-+(\s]*)"
    r"(?P<body>[.,]?[9_](?:[9.,' ]*9)?)(?P<power>[eE][-+]?9+)?(?:[.,]-{0,2})?\s*"
    r"(?P<scale>(?:[kKMB]|(?i:tsd|thousand|mio|mn|mill|million|bn|mrd|billion))\b\.?)?\s*"
    r"(?P<unit>(?!(?:st|nd|rd|th)\b)(?:[^\W\d_]|[$€£¥₹₽₩₺₴₪฿₫₱%‰°/·^²³])+\.?(?: [^\W\d_]+\.?)?)?"
    r"\s*(?P<close>\))?\s*(?P<end>[-+])?\s*"
)
_NAME = re.compile(r".*[9_][^\WgmlshtVAWNJKFCx\d_]")  # a letter behind digits: 17B is a name


@result
class NumberWords:
    """Strings read as numbers."""

    values: np.ndarray  # [n] numbers, NaN where missing or none
    is_number: np.ndarray  # [n] bool
    is_mark: np.ndarray  # [n] bool, words that stand for a missing number
    is_mostly: bool  # at least SHARE of those that are not missing are numbers
    is_code: bool  # one starts with a zero, as "007" does: a name made of digits
    is_ambiguous: bool  # whether the mark may be a decimal or a thousands separator
    readable_share: float  # of the words that are not missing, those that some dialect reads
    notes: tuple[str, ...]  # on bounds, on values without the unit, on an ambiguous mark
    number_format: str = ""  # dialect and unit; empty for plain numbers
    decimal: str = ""  # the decimal mark; empty where the column does not show it


def number_words(
    words: pa.LargeStringArray, number_format: str = "", decimal: str = ""
) -> NumberWords:
    """Return strings parsed as numbers: values, which strings are numbers, and the format."""
    # number_format: of a column that was read before. decimal: mark of the table, where a column
    # leaves it open. Strings that are all plain numbers, which Arrow reads, need no dialect.
    is_number = matches(words, NUMBER)
    is_mark = are_marks(words)
    n_numbers = int(is_number.sum())
    n_present = len(words) - words.null_count - int(is_mark.sum())
    is_code = bool(matches(words, CODE).any())
    is_ambiguous = (
        0 < n_numbers == n_present
        and bool(matches(words, GROUPED)[is_number].all())
        and bool(matches(words, r"\.").any())
    )
    is_plain = n_numbers == n_present and not (is_ambiguous and decimal == ",")
    if (number_format or not is_plain) and not is_code:
        read = _read_by_dialect(words, is_mark, number_format, decimal)
        is_better = read is not None and int(read.is_number.sum()) > n_numbers
        if read is not None and (number_format or is_ambiguous or is_better):
            return read
    if n_numbers == len(words):
        values = _parse_plain(words)
    else:
        values = np.full(len(words), np.nan)
    if 0 < n_numbers < len(words):
        values[is_number] = _parse_plain(words.filter(pa.array(is_number)))
    is_mostly = n_numbers > 0 and n_numbers >= SHARE * n_present
    notes: tuple[str, ...] = ()
    if is_ambiguous and not decimal:
        notes = (f"{words.drop_null()[0]} is read with a decimal point",)
    return NumberWords(
        values, is_number, is_mark, is_mostly, is_code, is_ambiguous=is_ambiguous,
        readable_share=n_numbers / max(n_present, 1), notes=notes,
    )  # fmt: skip


def are_marks(words: pa.LargeStringArray) -> np.ndarray:
    """Return which words stand for a missing number or date, such as "?" and "NA", [n] bool."""
    return matches(words, MARK)


def matches(words: pa.LargeStringArray, pattern: str) -> np.ndarray:
    """Return which words contain a match of a regular expression, [n] bool; a null does not."""
    outcome = pc.match_substring_regex(words, pattern)
    return outcome.fill_null(False).to_numpy(zero_copy_only=False)


def _parse_plain(words: pa.LargeStringArray) -> np.ndarray:
    """Return plain numerals as int64 if all are integers, else as float64, [n]."""
    trimmed = pc.utf8_trim_whitespace(words)
    if matches(words, _WHOLE).all():
        trimmed = pc.utf8_ltrim(trimmed, characters="+")
        return trimmed.cast(pa.int64()).to_numpy()
    return trimmed.cast(pa.float64()).to_numpy()


def number_of(value: object) -> float:
    """Return a number, or the number in a text (int if whole); raise ValueError for others."""
    if isinstance(value, str):
        text = value
    else:
        text = repr(value)  # True is no numeral
    if not re.fullmatch(NUMBER, text, re.ASCII) or not math.isfinite(float(text)):
        raise ValueError(f"{text!r:.40} is no finite number")
    if re.fullmatch(r"\s*[-+]?\d+\s*", text):
        return int(text)
    return float(text)


def numeral(value: float) -> str:
    """Return a number as the shortest text that reads as it; integers without a point."""
    is_whole = isinstance(value, int | np.integer) or (value % 1 == 0 and abs(value) < 2**53)
    if is_whole:
        return str(int(value))
    return repr(float(value))


def number_word(value: float, number_format: str) -> str:
    """Write a number in a column's format, without marks of thousands."""
    key = next(key for key in DIALECTS if number_format.startswith(key))
    return numeral(value).replace(".", DIALECTS[key][0]) + number_format[len(key) :]


class _Template(NamedTuple):
    """What words that differ in their digits alone have in common."""

    body: str  # digits, written 9 and a leading 0 as _, and marks
    sign: int  # 1 or −1
    exponent: int  # power of ten by which a word such as Mio scales
    is_bound: bool
    unit: str
    is_name: bool  # whether it may be a name, such as 17B
    first_row: int  # row of the first such word
    n: int  # number of such words

    def reads(self, key: str, unit: str) -> bool:
        """Return whether a number format (point, comma) reads such words, with this unit."""
        if self.unit != unit and (self.unit or unit in {"%", "‰"}):
            return False
        point, comma = map(re.escape, DIALECTS[key])
        indian = text_if(comma == ",", "|9{1,2}(?:,9{2})*,9{3}")
        integer = rf"(?:9{{1,3}}(?:{comma}9{{3}})+{indian}|_|9+)"
        return bool(re.fullmatch(rf"{integer}(?:{point}[9_]9*)?|{point}[9_]9*", self.body))

    @property
    def has_mark(self) -> bool:
        """Whether a mark of decimals or thousands stands between the digits."""
        return bool(set(".,' ") & set(self.body))


def _parse_template(word: str, first_row: int, n: int) -> _Template | None:
    """Return the parsed template ("9,999 kg") that n words share; None if it is no number."""
    parts = _WORD.fullmatch(word)
    if parts is None or (parts["scale"] and parts["power"]):
        return None
    prefix = parts["head"] + parts["mid"]
    n_parentheses = prefix.count("(")  # (5) is −5
    n_minus = prefix.count("-") + (parts["end"] or "").count("-") + n_parentheses
    if n_minus > 1 or n_parentheses != bool(parts["close"]):
        return None
    exponent = 0
    if parts["scale"]:
        exponent = _POWERS[parts["scale"].rstrip(".").lower()]
    unit = ((parts["money"] or "") + (parts["unit"] or "")).rstrip(".")
    is_bound = bool(set(prefix) & set("<>≤≥~≈")) or parts["end"] == "+"
    sign = -1 if n_minus else 1
    is_name = bool(_NAME.fullmatch(word))
    return _Template(parts["body"], sign, exponent, is_bound, unit, is_name, first_row, n)


def _read_by_dialect(
    words: pa.LargeStringArray, is_mark: np.ndarray, number_format: str, decimal: str
) -> NumberWords | None:
    """Return words parsed by the number format that reads most of them; None if few."""
    # Few templates stand for all words: a word with its digits written 9, and a leading 0 as _.
    text = _unify_spelling(words)
    is_shaped = matches(text, _SHAPE) & ~is_mark
    n_present = len(words) - words.null_count - int(is_mark.sum())
    if not n_present or 2 * is_shaped.sum() < n_present:  # less than half holds a number
        return None
    text = text.filter(pa.array(is_shaped))
    rows = np.flatnonzero(is_shaped)
    digits_as_9 = pc.replace_substring_regex(text, r"^(\D*)0", r"\1_")
    digits_as_9 = pc.replace_substring_regex(digits_as_9, r"\d", "9").dictionary_encode()
    template_idx = digits_as_9.indices.to_numpy()
    if len(digits_as_9.dictionary) > _MOST_TEMPLATES:
        return None
    _, starts, counts = np.unique(template_idx, return_index=True, return_counts=True)
    columns = digits_as_9.dictionary.to_pylist(), rows[starts].tolist(), counts.tolist()
    templates = [_parse_template(*row) for row in zip(*columns, strict=True)]
    understood = [t for t in templates if t]
    key, unit, is_ambiguous = _choose_dialect(understood, number_format, decimal)
    used_templates = [t for t in understood if t.reads(key, unit)]
    is_read = np.array([t in used_templates for t in templates])[template_idx]
    numbers = words.take(pa.array(rows[is_read]))
    if not number_format and _are_names(used_templates, unit, numbers):
        return None
    values = np.full(len(words), np.nan)
    read_text = text.filter(pa.array(is_read))
    values[rows[is_read]] = _parse_numbers(read_text, templates, template_idx[is_read], key)
    has_marks = any(set(".,") & set(t.body) for t in used_templates)
    distinctive = (t for t in understood if t.has_mark or _KNOWN_UNIT.fullmatch(t.unit))
    n_readable = sum(t.n for t in distinctive if any(t.reads(d, t.unit) for d in DIALECTS))
    return NumberWords(
        values, ~np.isnan(values), is_mark, is_code=False,
        notes=_list_notes(words, used_templates, unit, is_ambiguous),
        is_mostly=len(numbers) > 0 and (bool(number_format) or len(numbers) >= SHARE * n_present),
        number_format=f"{key} {unit}".rstrip(), is_ambiguous=is_ambiguous and has_marks,
        decimal=text_if(has_marks and not is_ambiguous, DIALECTS[key][0]),
        readable_share=n_readable / n_present,
    )  # fmt: skip


def _unify_spelling(words: pa.LargeStringArray) -> pa.LargeStringArray:
    """Return words with one character each for space, apostrophe and minus, m2 as m²."""
    if matches(words, r"[^\x00-\x7F]|[A-Za-z][23]\s*$").any():
        for pattern, spelling in _SPELLINGS:
            words = pc.replace_substring_regex(words, pattern, spelling)
    return words


def _parse_numbers(
    text: pa.LargeStringArray, templates: list[_Template | None], template_idx: np.ndarray, key: str
) -> np.ndarray:
    """Return the numbers of words in a number format, [n] float64; template_idx: [n]."""
    point, comma = DIALECTS[key]
    parts = pc.extract_regex(text, _SHAPE)
    body = pc.replace_substring(parts.field("body"), comma, "")
    body = pc.replace_substring(body, point, ".")
    powers = pa.array([f"e{t.exponent}" if t and t.exponent else "" for t in templates], body.type)
    powers = powers.take(pa.array(template_idx))
    body = pc.binary_join_element_wise(body, parts.field("power"), powers, pa.scalar("", body.type))
    signs = np.array([t.sign if t else 0 for t in templates])[template_idx]
    return body.cast(pa.float64()).to_numpy() * signs


def _list_notes(
    words: pa.LargeStringArray, templates: list[_Template], unit: str, is_ambiguous: bool
) -> tuple[str, ...]:
    """Return sentences on limits such as "<5", values without unit, ambiguous marks."""
    bounds = [t for t in templates if t.is_bound]
    without_unit = [t for t in templates if unit and not t.unit]
    with_marks = [t for t in templates if is_ambiguous and set(".,") & set(t.body)]
    groups = {
        "limits such as {!r} ({}) are read as their number": bounds,
        f"values such as {{!r}} ({{}}) are without {unit}": without_unit,
        "{!r} alone could have another decimal mark": with_marks,
    }
    return tuple(
        sentence.format(words[group[0].first_row].as_py(), sum(t.n for t in group))
        for sentence, group in groups.items()
        if group
    )


def _choose_dialect(
    templates: list[_Template], number_format: str, decimal: str
) -> tuple[str, str, bool]:
    """Return the number format that reads most, the unit, and whether another reads as many."""
    n_by_unit: Counter[str] = Counter({"": 0})
    for t in templates:
        n_by_unit[t.unit] += t.n
    key = next((key for key in DIALECTS if number_format.startswith(key)), "")
    unit = max(n_by_unit, key=lambda name: (n_by_unit[name], bool(name)))
    if number_format:
        unit = number_format[len(key) :].strip()
    counts = {d: sum(t.n for t in templates if t.reads(d, unit)) for d in DIALECTS}
    key = key or max(counts, key=lambda d: (counts[d], DIALECTS[d][0] == decimal))
    tied_marks = {DIALECTS[d][0] for d in DIALECTS if counts[d] == counts[key]}
    return key, unit, len(tied_marks) > 1


def _are_names(templates: list[_Template], unit: str, words: pa.LargeStringArray) -> bool:
    """Return whether words that read as numbers are codes, class names or ranges instead."""
    n = len(words)
    is_few = len(words.unique()) <= FEW
    unit_is_known = bool(_KNOWN_UNIT.fullmatch(unit))
    is_whole = not any(t.has_mark for t in templates)
    has_one_scale = len({t.exponent for t in templates}) == 1
    is_quantity = unit_is_known and not (is_whole and has_one_scale)  # 1.5M beside 300K
    has_leading_zero = any(re.fullmatch("_9+", t.body) for t in templates)  # 007
    are_numbered = all(re.fullmatch(r"999([ '.]999){2,}", t.body) for t in templates)  # 555 123 456
    are_bounds = is_few and 2 * sum(t.n for t in templates if t.is_bound) > n  # <5, 10+
    are_categories = is_few and is_whole and not unit_is_known  # 4 doors
    are_letter_codes = not is_quantity and 2 * sum(t.n for t in templates if t.is_name) > n  # 17B
    return has_leading_zero or are_numbered or are_bounds or are_categories or are_letter_codes
