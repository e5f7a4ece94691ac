"""Strings in memory as large as their UTF-8: never one fixed width for the longest of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from datassay.errors import DataError

# Up to this many characters, strings of one fixed width are the smallest that NumPy knows.
SHORT = 16


class Texts:
    """[n] strings in one block of UTF-8, which subsets share; indexed as an array is.

    Args:
        block: [m] strings, no nulls.
        rows: [n], which of them; None: all.
    """

    __slots__ = ("_block", "_rows")

    def __init__(self, block: pa.LargeStringArray, rows: np.ndarray | None = None):
        self._block = block
        self._rows = np.arange(len(block)) if rows is None else rows

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        return (self._block[int(row)].as_py() for row in self._rows)

    def __getitem__(self, index: Any) -> Any:
        """One string for a number; the Texts of those samples for [m] numbers or an [n] mask."""
        rows = self._rows[index]
        return self._block[int(rows)].as_py() if np.ndim(rows) == 0 else Texts(self._block, rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.tolist(), dtype=object)

    def __reduce__(self) -> tuple[type, tuple[pa.LargeStringArray]]:
        return Texts, (self._block.take(pa.array(self._rows)),)  # what is sent holds its own alone

    def __repr__(self) -> str:
        return f"Texts of {len(self)}"

    def tolist(self) -> list[str]:
        """The strings of all samples, a copy each."""
        return list(self)


def as_arrow(values: Any, name: str) -> pa.LargeStringArray:
    """Strings in one block of UTF-8, [n]; what is one block already is not copied."""
    # values: [n] strings as an array of NumPy or of Arrow, nulls allowed in the latter.
    try:
        if not isinstance(values, pa.Array | pa.ChunkedArray):
            check_writable(name, values)
            # As objects: older versions of Arrow take no fixed-width strings as large ones.
            values = pa.array(np.asarray(values).astype(object), pa.large_string())
        values = values.cast(pa.large_string())
        values.validate(full=True)
    except DataError:
        raise
    except ValueError as error:  # of Arrow
        raise DataError(
            f"{name} must be text that UTF-8 can hold; {_first_line(error)}. Correct those "
            "strings, or decode them as what they are."
        ) from error
    if isinstance(values, pa.ChunkedArray):
        one = values.num_chunks == 1
        values = values.chunk(0) if one else values.combine_chunks()
        if isinstance(values, pa.ChunkedArray):  # what combine_chunks gives of no chunk
            values = pa.array([], pa.large_string())
    return values


def compact(words: pa.LargeStringArray) -> np.ndarray:
    """Strings as NumPy holds them in the least memory.

    Args:
        words: [n], no nulls.

    Returns:
        [n] of one fixed width where none is longer than SHORT characters or where that takes less
        than twice their UTF-8; else [n] objects, equal strings being one object.
    """
    if not len(words):
        return np.array([], dtype=str)
    coded = words.dictionary_encode()
    names = coded.dictionary.to_pylist()
    longest, size = max(map(len, names)), words.nbytes
    kind = str if longest <= SHORT or 4 * longest * len(words) <= 2 * size else object
    return np.array(names, dtype=kind)[coded.indices.to_numpy()]


def check_writable(name: str, values: Any) -> None:
    """Refuse strings that no file can hold, before anything is computed with them."""
    if isinstance(values, Texts):
        return  # UTF-8 already
    if isinstance(values, np.ndarray) and values.dtype.kind == "U":
        native = values.astype(values.dtype.newbyteorder("="), copy=False)
        codes = np.ascontiguousarray(native).reshape(-1).view(np.uint32)
        if not ((codes >= 0xD800) & (codes <= 0xDFFF)).any():
            return
    for value in values:
        try:
            str(value).encode()
        except UnicodeEncodeError:
            raise DataError(
                f"{name} must be text that UTF-8 can hold; {ascii(str(value))[:80]} holds half of "
                "a surrogate pair, which no file can hold. Replace that character, or rename it."
            ) from None


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rpartition("Invalid: ")[2].rstrip(".")
