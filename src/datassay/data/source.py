"""Raw arrays as a reader returns them, and what values of any kind become arrays."""

import errno
import os
import re
import stat
import struct
import tokenize
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from datassay.data.samples import Column, Images, Kind, Preparation, tensor_to_array
from datassay.data.strings import Texts, as_arrow
from datassay.errors import DataError
from datassay.machine import available_memory
from datassay.results import result

Task = Literal["classification", "regression"]
# Names of parts, in any case; of those to hold out the first that is there is taken.
TRAIN_NAMES = ("train", "training")
VAL_NAMES = ("val", "valid", "validation", "dev", "eval", "test", "testing")
_PART = re.compile(rf"(?<![a-z])(?:{'|'.join(TRAIN_NAMES + VAL_NAMES)})(?![a-z])")

# What zip, gzip, numpy, Arrow and Pillow raise on a truncated or foreign file.
_UNREADABLE = (
    OSError, EOFError, MemoryError, OverflowError, RuntimeError, SyntaxError, ValueError,
    struct.error, tokenize.TokenError, pa.ArrowIndexError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


@result
class SourcePart:
    """The training or the validation part as read, not yet checked."""

    x: np.ndarray  # [n, ...] numbers, or [n] strings (texts)
    y: np.ndarray  # [n] labels of any type, or [n] or [n, k] numbers
    ids: np.ndarray | None = None  # [n]; None: the row number within this part
    texts: Texts | None = None  # [n], beside the numbers in x
    source: np.ndarray | None = None  # [n] names of where each sample came from
    # [n] whose labels are known to be right: booleans, 0 and 1, or yes and no
    trusted: np.ndarray | None = None
    groups: np.ndarray | None = None  # [n] names of what stays together
    time: np.ndarray | None = None  # [n] numbers or dates
    images: Images | None = None  # [n] files, x then [n, 0]
    rows: pa.Table | None = None  # [n] rows of a table's own columns, as they came


@result
class Source:
    """One data source, read but neither checked nor split."""

    name: str
    train: SourcePart
    val: SourcePart | None = None
    task: Task | None = None  # where the source fixes it; None: the targets decide
    class_names: tuple[str, ...] = ()  # labels are then these or indices of them
    kind: Kind | None = None  # None: the shape of x decides
    feature_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    preparation: Preparation | None = None
    warnings: tuple[str, ...] = ()

    @property
    def is_table(self) -> bool:
        """Whether it was read from a table, one of whose columns is the target."""
        return any(column.read_as == "target" for column in self.columns)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever a decoder raises on a bad file into one DataError that names the file.

    Args:
        path: the file being read.

    Yields:
        Nothing; the file is read inside the with block.

    Raises:
        DataError: the file is truncated, unreadable or not of its format, or it is none: to open a
            pipe waits for ever, and a device may never end.
    """
    with decoding(str(path)):
        if not stat.S_ISREG(path.stat().st_mode):
            raise DataError(
                f"{path} must be a file; it is a pipe, a socket, a device or a folder. Copy what "
                "it holds into a file."
            )
        yield


@contextmanager
def decoding(name: str) -> Iterator[None]:
    """Turn whatever a decoder raises into one DataError that names what was read."""
    try:
        yield
    except DataError:
        raise
    except _UNREADABLE as error:
        if getattr(error, "errno", None) == errno.ELOOP:
            raise DataError(f"{name} must be a file; it is a link to itself. Remove it.") from error
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(
            f"{name} cannot be read: {reason}. It is truncated, damaged or not of the format its "
            "name says; fetch or write it again."
        ) from error


def parts_among(names: Iterable[str]) -> list[str]:
    """Return the names of a training part and of parts to hold out, such as "train", "test".

    They differ in the word of the part alone. [] without any; "train" may stand alone.
    """
    by_affix: dict[str, dict[str, str]] = defaultdict(dict)  # rest of the name → part → name
    for name in names:
        if match := _PART.search(name.casefold()):
            by_affix[name.casefold().replace(match[0], "", 1)][match[0]] = name
    for affix, by_part in sorted(by_affix.items()):
        training = [by_part[word] for word in TRAIN_NAMES if word in by_part][:1]
        held_out = [by_part[word] for word in VAL_NAMES if word in by_part]
        if training and (held_out or not affix):
            return training + held_out
    return []


def scan(folder: Path) -> list[os.DirEntry[str]]:
    """Return the entries of a folder, sorted by name."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise DataError(
            f"{folder} cannot be read: {error.strerror or error}. Allow reading it, or name "
            "another folder."
        ) from error


def parse_in_blocks(parse: Callable[[int], pa.Table], size: int) -> pa.Table:
    """Return the table that `parse` reads, in blocks large enough for the longest row."""
    # size: bytes in all.
    block = 2**20
    while True:
        try:
            return parse(block)
        except pa.ArrowInvalid as error:
            if "straddling" not in str(error) or block > size:
                raise
            block = min(16 * block, 2**31 - 1)


def check_fits(n_bytes: float, content: str) -> None:
    """Raise if `n_bytes` exceed this machine's memory, before they are allocated."""
    memory = available_memory()
    if n_bytes > memory:
        raise DataError(
            f"{content} would take {n_bytes / 1e9:,.1f} GB of memory; {memory / 1e9:,.1f} GB "
            f"are free, {memory / n_bytes:.2g} of it. Take fewer samples or columns, or a larger "
            "machine."
        )


def to_numpy(values: Any, name: str) -> np.ndarray:
    """Return arrays, tensors, frames or lists as a NumPy array of numbers or strings."""
    # It shares memory with the argument where it can. Strings that are not there in one fixed width
    # stay Python's own, in an array of objects.
    if hasattr(values, "toarray") and hasattr(values, "shape"):  # of scipy
        check_fits(2.0 * np.prod(values.shape) * values.dtype.itemsize, f"{name} as a full array")
        values = values.toarray()
    if np.ma.is_masked(values):
        raise DataError(f"{name} must have no missing values; some are masked. Fill them in.")
    values = tensor_to_array(values, name)
    # NumPy would make all strings of a list as wide as the longest.
    is_words = isinstance(values, list | tuple) and any(isinstance(v, str) for v in values)
    try:
        array = np.asarray(values, dtype=object if is_words else None)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(
            f"{name} must be an array whose rows all have one shape; got {type(values).__name__}: "
            f"{error}. Pass a NumPy array or a CPU tensor of float32."
        ) from error
    if array.dtype.kind == "O":
        return _convert_objects(array, name)
    if array.dtype.kind == "S":
        words = as_arrow(pa.array(array.ravel().astype(object), pa.large_binary()), name)
        return words.to_numpy(zero_copy_only=False).astype(object).reshape(array.shape)
    if array.dtype.kind == "T":
        return array.astype(object)
    return array


def _convert_objects(array: np.ndarray, name: str) -> np.ndarray:
    """Return an array of objects as numbers or strings; raise for mixed or other values."""
    entries = array.ravel().tolist()
    if all(isinstance(entry, str) for entry in entries):
        return array
    if all(isinstance(entry, bool | int | float | np.number | np.bool_) for entry in entries):
        numbers = np.array(entries)
        if numbers.dtype.kind != "O":
            return numbers.reshape(array.shape)
        raise DataError(
            f"{name} must hold numbers of at most 64 bits; got {max(entries, key=abs)}. Pass such "
            "numbers as strings or as floating point."
        )
    kinds = sorted({type(entry).__name__ for entry in entries})
    raise DataError(
        f"{name} must hold only numbers or only strings; got a mix of {', '.join(kinds)}. "
        "Remove missing entries and encode categories as numbers, or save the table as .csv."
    )
