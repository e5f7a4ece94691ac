"""Strings in memory as large as their UTF-8: never one fixed width for the longest of them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from datassay.errors import DataError
from datassay.optional import coalesce

# Up to this many characters, strings of one fixed width are the smallest that NumPy knows.
SHORT = 16


class Indexed:
    """[n] items of a store, each made when it is asked for; indexed as an array is."""

    __slots__ = ("_rows",)

    def __init__(self, n: int, rows: np.ndarray | None):
        self._rows = coalesce(rows, np.arange(n))

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Any]:
        return (self._get_item(int(row)) for row in self._rows)

    def __getitem__(self, index: Any) -> Any:
        """Return one item for a number, several for [m] numbers or an [n] mask."""
        rows = self._rows[index]
        if np.ndim(rows) == 0:
            return self._get_item(int(rows))
        return self._get_subset(rows)

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {len(self)}"

    def _get_item(self, row: int) -> Any:
        raise NotImplementedError

    def _get_subset(self, rows: np.ndarray) -> Any:
        raise NotImplementedError


class Texts(Indexed):
    """[n] strings in one block of UTF-8, which subsets share; indexed as an array is."""

    __slots__ = ("_block",)

    def __init__(self, block: pa.LargeStringArray, rows: np.ndarray | None = None):
        super().__init__(len(block), rows)
        self._block = block

    def _get_item(self, row: int) -> str:
        return self._block[row].as_py()

    def _get_subset(self, rows: np.ndarray) -> "Texts":
        return Texts(self._block, rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.tolist(), dtype=object)

    def __reduce__(self) -> tuple[type, tuple[pa.LargeStringArray]]:
        # Only the strings of this subset go to another process.
        return Texts, (self._block.take(pa.array(self._rows)),)

    def tolist(self) -> list[str]:
        """Return the strings of all samples, a copy each."""
        return list(self)


def as_arrow(values: Any, name: str) -> pa.LargeStringArray:
    """Return strings as one LargeStringArray; copied only if they are not one block of UTF-8."""
    try:
        if not isinstance(values, pa.Array | pa.ChunkedArray):
            check_encodable(name, values)
            # As objects: older versions of Arrow take no fixed-width strings as large ones.
            values = pa.array(np.asarray(values).astype(object), pa.large_string())
        values = values.cast(pa.large_string())
        values.validate(full=True)
    except DataError:
        raise
    except ValueError as error:  # of Arrow, as "Invalid: <why>."
        why = str(error).splitlines()[0].rpartition("Invalid: ")[2].rstrip(".")
        raise DataError(
            f"{name} must be text that UTF-8 can hold; {why}. Correct those strings, or decode "
            "them as what they are."
        ) from error
    if isinstance(values, pa.ChunkedArray):
        if values.num_chunks == 1:
            values = values.chunk(0)
        else:
            values = values.combine_chunks()
        if isinstance(values, pa.ChunkedArray):  # what combine_chunks gives of no chunk
            values = pa.array([], pa.large_string())
    return values


def compact(words: pa.LargeStringArray) -> np.ndarray:
    """Return strings as a NumPy array that takes the least memory, [n]."""
    # In one fixed width if none is longer than SHORT characters, or if that takes at most twice the
    # bytes of their UTF-8; else as objects, equal strings being one object.
    if not len(words):
        return np.array([], dtype=str)
    coded = words.dictionary_encode()
    names = coded.dictionary.to_pylist()
    with_nul = [name for name in names if name.endswith("\0")]
    if with_nul:
        raise DataError(
            "labels and ids must not end with the character NUL, which NumPy drops; "
            f"{with_nul[0]!r:.40} does. Remove it there."
        )
    longest = max(map(len, names))
    dtype = object
    if longest <= SHORT or 4 * longest * len(words) <= 2 * words.nbytes:
        dtype = str
    return np.array(names, dtype=dtype)[coded.indices.to_numpy()]


def check_encodable(name: str, values: Any) -> None:
    """Raise if a string cannot be written as UTF-8."""
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
