"""Columns of numbers, booleans and lists; words among them; what float32 would lose."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from datassay.data.samples import Column
from datassay.data.tables.read import SHOWN, ReadColumn, report_missing, rows_of
from datassay.errors import DataError
from datassay.optional import inflect, text_if

# Whole numbers, each once, that fill so much of their range number the rows: a measurement would
# repeat some. A few rows must start at 0 or 1: what starts elsewhere may be years.
FEW_ROWS, MOST_OF_RANGE = 20, 0.8
MANY_ROWS, PART_OF_RANGE = 200, 0.5
# A number so named names rows, where so much of its values differ.
_NAMES_ROWS = re.compile(r"(?:^|[^A-Za-z])(?:id|ID|Id|uuid|key)$|[a-z]I[dD]$")
# As do numbers of whom or what a row is about, "patient" or "account no".
_NAMES_SUBJECTS = re.compile(
    "(?:patient|person|subject|customer|client|user|member|passenger|employee|student|household)"
    "(?:[ _-]?(?:no|nr|num|number|code))?|(?:account|invoice|ticket|policy|phone)"
    "[ _-]?(?:no|nr|num|number|code)",
    re.IGNORECASE,
)
MOSTLY = 0.5
# A number that stands for a missing one recurs: in so many rows, and in this part of all.
FEWEST_CODES, CODE_SHARE = 5, 0.005
_NINES = re.compile(r"-?99+$")
# What rounding may change of a feature, in its standard deviations.
MAX_LOSS = 0.01
_BLOCK = 2**22  # values at a time
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def read_numbers(values: pa.ChunkedArray, column: Column) -> ReadColumn:
    """Return numbers, booleans, times or durations (seconds) as a column, NaN if missing."""
    if pt.is_time(values.type) or pt.is_duration(values.type):
        unit = _SECONDS[values.type.unit]
        counts = values.cast(pa.int32() if pt.is_time32(values.type) else pa.int64())
        values = pc.multiply(counts.cast(pa.float64()), unit)
        column = replace(column, note="seconds")
    if pt.is_decimal(values.type):
        values = values.cast(pa.float64())
    is_missing = values.is_null(nan_is_null=True).to_numpy()
    if not is_missing.any():
        return check_numbers(values.to_numpy(), column)
    if column.read_as != "number":
        return report_missing(column, is_missing)
    if is_missing.all():
        column = replace(column, missing=len(is_missing))
        return ReadColumn(column, reason="all values are missing")
    present = values.filter(pa.array(~is_missing)).to_numpy()
    return insert_missing(check_numbers(present, column), is_missing)


def insert_missing(read: ReadColumn, is_missing: np.ndarray) -> ReadColumn:
    """Return the column with NaN in the rows of `is_missing`, [n] float64."""
    column = replace(read.column, missing=int(is_missing.sum()))
    if read.values is None:
        return replace(read, column=column)
    full = np.full(len(is_missing), np.nan)
    full[~is_missing] = read.values
    # A column of one value tells samples apart now: those that have it from those that have none.
    return replace(read, column=column, values=full, reason="")


def find_missing_code(read: ReadColumn) -> float | None:
    """Return the number that codes missing values in a column, such as -999, or None.

    It is written in nines, two or more, ends the range of the others, and recurs. Below 0 it is a
    code where no other number is, or where it lies farther from them than they span; above 0 in
    the latter case alone: 99 may be an age, 99 999 the highest amount that was asked for.
    """
    if read.values is None or read.problem or read.reason or read.column.read_as != "number":
        return None
    numbers = read.values[~np.isnan(read.values)]
    for code in (numbers.min().item(), numbers.max().item()):
        is_code = numbers == code
        n_codes = int(is_code.sum())
        is_rare = n_codes < max(FEWEST_CODES, CODE_SHARE * len(numbers))
        if is_rare or n_codes == len(numbers) or not _NINES.match(f"{code:.15g}"):
            continue
        other_numbers = numbers[~is_code]
        distance = np.abs(other_numbers - code).min()
        has_own_sign = code < 0 <= other_numbers.min()
        if has_own_sign or distance > other_numbers.max() - other_numbers.min() > 0:
            return float(code)
    return None


def read_code_as_missing(read: ReadColumn, code: float | None) -> ReadColumn:
    """Return the column with `code` replaced by NaN; unchanged if the code is None."""
    if code is None or read.values is None or read.problem:
        return read
    is_missing = (read.values == code) | np.isnan(read.values)
    note = f"{code:.15g} read as missing"
    column = replace(read.column, missing_code=code, note=note)
    n_codes = int((read.values == code).sum())
    numbers = check_numbers(read.values[~is_missing], column)
    warning = f"{code:.15g} in {n_codes:,} {inflect(n_codes, 'row', 'rows')}"
    return replace(insert_missing(numbers, is_missing), warning=warning)


def check_numbers(numbers: np.ndarray, column: Column) -> ReadColumn:
    """Return a column of numbers with its problem, or the reason to leave it out."""
    name = column.name
    if numbers.dtype.kind == "b" and column.read_as == "number":
        column = replace(column, read_as="boolean")
    if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
        is_infinite = ~np.isfinite(numbers)
        problem = (
            f"column {name!r} must be finite; {is_infinite.sum()} of {len(numbers)} values are "
            f"infinite ({rows_of(is_infinite)})"
        )
        return ReadColumn(column, problem=problem, remedy="Replace them or drop those rows")
    reason = ""
    is_id = False
    if column.read_as in {"number", "boolean"}:
        low = numbers.min().item()
        high = numbers.max().item()
        if low == high:
            reason = f"all values are {low}"
        elif _are_row_numbers(numbers, low, high):
            reason = "it numbers the rows"
            is_id = is_id_name(name)
        elif (is_id_name(name) or _NAMES_SUBJECTS.fullmatch(name)) and _are_ids(numbers):
            is_id = True
            reason = "its name and its values, whole numbers that mostly differ, are those of ids"
    if column.read_as == "number" and not reason and len(lost_features(numbers[:, None])):
        problem = (
            f"column {name!r} must keep its differences in float32, in which networks compute; "
            f"rounding changes it by more than {MAX_LOSS:.0%} of its standard deviation"
        )
        remedy = "Subtract an offset (of a time, the first), or choose a unit near 1"
        return ReadColumn(column, problem=problem, remedy=remedy)
    return ReadColumn(column, numbers, reason=reason, names_rows=is_id)


def is_id_name(name: str) -> bool:
    """Return whether a column is called as ids are: person_id, customerID, uuid, key."""
    return _NAMES_ROWS.search(name) is not None


def _are_row_numbers(numbers: np.ndarray, low: float, high: float) -> bool:
    """Return whether numbers are distinct integers that fill most of low … high."""
    n = len(numbers)
    n_in_range = high - low + 1
    if n < FEW_ROWS or n > n_in_range or numbers.dtype.kind == "b":
        return False
    if n >= MANY_ROWS:
        is_dense = n >= PART_OF_RANGE * n_in_range
    else:
        is_dense = n >= MOST_OF_RANGE * n_in_range and low in {0, 1}
    if not is_dense:
        return False
    is_whole = numbers.dtype.kind != "f" or bool((numbers == np.floor(numbers)).all())
    return is_whole and len(np.unique(numbers)) == n


def _are_ids(numbers: np.ndarray) -> bool:
    """Return whether numbers are integers that are mostly distinct."""
    n_values = 0
    if numbers.dtype.kind in "iu":
        n_values = len(np.unique(numbers))
    return len(numbers) >= FEW_ROWS and n_values >= MOSTLY * len(numbers)


def read_lists(values: pa.ChunkedArray, column: Column) -> ReadColumn:
    """Return a column of equally long lists of numbers, such as embeddings, as [n, d]."""
    is_missing = values.is_null().to_numpy()
    if is_missing.any():
        return report_missing(column, is_missing)
    if not pc.list_value_length(values)[0].as_py():
        problem = f"column {column.name!r} must hold lists of one number or more; they are empty"
        return ReadColumn(column, problem=problem, remedy="Drop it")
    flat = pc.list_flatten(values).to_numpy()
    vectors = flat.reshape(len(values), -1)
    bad = ~np.isfinite(vectors).all(axis=1)  # a missing number is read as NaN
    if bad.any():
        problem = (
            f"column {column.name!r} must hold finite numbers alone; {bad.sum()} of {len(bad)} "
            f"lists hold others ({rows_of(bad)})"
        )
        return ReadColumn(column, problem=problem, remedy="Fill them in or drop those rows")
    lost = lost_features(vectors)
    if len(lost):  # the first of them as a column of its own, for its problem
        column = replace(column, name=f"{column.name} {lost[0]}", read_as="number")
        return check_numbers(vectors[:, lost[0]], column)
    return ReadColumn(replace(column, note=f"{vectors.shape[1]:,} numbers per row"), vectors)


def stray_words(words: pa.LargeStringArray, fits: np.ndarray, fault: str = "none") -> str:
    """Return a text on words not in `fits`, such as "2 are none: '?' (row 17)"; "" if all fit."""
    strays = np.flatnonzero(~fits & words.is_valid().to_numpy(zero_copy_only=False))
    if not len(strays):
        return ""
    words_of_rows = {int(i): words[int(i)].as_py() for i in strays[:SHOWN]}
    quoted = (w if len(w) <= 24 else w[:23] + "…" for w in words_of_rows.values())
    examples = [f"{word!r} (row {i})" for i, word in zip(words_of_rows, quoted, strict=True)]
    text = ", ".join(examples) + text_if(len(strays) > SHOWN, ", ...")
    return f"{len(strays)} {inflect(len(strays), 'is', 'are')} {fault}: {text}"


def rounding_loss(x: np.ndarray) -> np.ndarray:
    """Return how much float32 changes each feature's differences, in deviations, [m]."""
    # max_i |(f(x_i) − f(x_0)) − (x_i − x_0) − mean| / std(x),  f rounds to float32. 0 where nothing
    # is lost or the feature is constant or not finite; infinity for values too large for float32.
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = x.astype(np.float32).astype(np.float64)
        # Whole numbers beyond 2^53 differ exactly only as such. Unsigned differences wrap around
        # to what int64 reads as negative.
        if x.dtype.kind in "iu":
            differences = (x - x[:1]).astype(np.int64)
        else:
            differences = x - x[:1]
        differences = differences.astype(np.float64)
        change = (rounded - rounded[:1]) - differences
        change = np.abs(change - change.mean(axis=0)).max(axis=0)
        largest = np.abs(differences).max(axis=0)
        # Scaled first: the square of 1e-200 is 0.
        spread = (differences / np.where(largest > 0, largest, 1)).std(axis=0) * largest
        loss = np.where(spread > 0, change / np.where(spread > 0, spread, 1), 0.0)
    loss = np.where(np.isfinite(rounded).all(axis=0), np.nan_to_num(loss, nan=np.inf), np.inf)
    return np.where(np.isfinite(x).all(axis=0), loss, 0.0)


def lost_features(x: np.ndarray) -> np.ndarray:
    """Return positions of features whose differences float32 loses, of x [n, m]."""
    if x.dtype.itemsize < 4 or x.dtype == np.float32:  # those lose nothing more
        return np.arange(0)
    low = x.min(axis=0).astype(np.float64)
    high = x.max(axis=0).astype(np.float64)
    largest = np.maximum(np.abs(low), np.abs(high))
    # A standard deviation is at least the range over √(2 n), a rounding error at most half a step.
    with np.errstate(over="ignore", invalid="ignore"):
        bound = 2 * (largest * 2.0**-24 + 2.0**-149) * np.sqrt(2 * len(x))
        is_safe = (bound <= MAX_LOSS * (high - low)) & (largest < np.finfo(np.float32).max)
    suspects = np.flatnonzero(~is_safe)
    width = max(1, _BLOCK // len(x))
    blocks = [suspects[a : a + width] for a in range(0, len(suspects), width)]
    lost = [block[rounding_loss(x[:, block]) > MAX_LOSS] for block in blocks]
    if lost:
        return np.concatenate(lost)
    return suspects


def check_differences(x: np.ndarray, names: Sequence[str], kind: str = "feature") -> None:
    """Raise DataError if float32 loses the differences of a feature."""
    lost = np.arange(0)
    if x.size:
        lost = lost_features(x.reshape(len(x), -1))
    if len(lost):
        lost_names = [names[j] if j < len(names) else f"x{j}" for j in lost[:SHOWN]]
        ending = text_if(len(lost) > SHOWN, f" and {len(lost) - SHOWN} more")
        raise DataError(
            f"every {kind} must keep its differences in float32, in which networks compute; "
            f"{', '.join(map(repr, lost_names))}{ending} would not: rounding changes them by more "
            f"than {MAX_LOSS:.0%} of their standard deviation. Subtract an offset (of a time, the "
            "first), or choose a unit in which values are near 1."
        )
