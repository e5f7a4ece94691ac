"""Raw arrays as a reader returns them, with what the file says about them."""

from __future__ import annotations

import os
import stat
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from datassay.data.samples import Column, Images, Kind, Preparation
from datassay.data.strings import Texts
from datassay.errors import DataError
from datassay.machine import available_memory
from datassay.results import result

Task = Literal["classification", "regression"]

# What zip, gzip, numpy, Arrow and Pillow raise on a truncated or foreign file.
_UNREADABLE = (
    OSError,
    EOFError,
    MemoryError,
    OverflowError,
    RuntimeError,
    SyntaxError,
    ValueError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


@result
class SourcePart:
    """The training or the validation part as read, not yet checked.

    Attributes:
        x: [n, ...] numbers, or [n] strings (texts).
        y: [n] labels of any type, or [n] or [n, k] numbers.
        ids: [n]; None: the row number within this part.
        texts: [n] strings beside the numbers in x; None where there are none.
        source: [n] names of where each sample came from; None where that is unknown.
        images: [n] files, x then [n, 0]; None where x holds all there is.
        rows: [n] rows of a table's own columns, as they came; None of what is no table.
    """

    x: np.ndarray
    y: np.ndarray
    ids: np.ndarray | None = None
    texts: Texts | None = None
    source: np.ndarray | None = None
    images: Images | None = None
    rows: pa.Table | None = None


@result
class Source:
    """One data source, read but neither checked nor split.

    Attributes:
        name: what to call it on a page.
        train: the samples, all of them where val is None.
        val: the validation part where the source has its own.
        task: where the source fixes it; None: the targets decide.
        class_names: where the source names its classes; labels are then names or indices of them.
        kind: how a sample is shown; None: the shape of x decides.
        feature_names: one string a column of x; empty means x0, x1, ...
        columns: how each column of a table was read, or what of a folder was left out.
        preparation: what makes x of a table's rows; None of what is no table.
        warnings: what the reader must know before trusting a figure.
    """

    name: str
    train: SourcePart
    val: SourcePart | None = None
    task: Task | None = None
    class_names: tuple[str, ...] = ()
    kind: Kind | None = None
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
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise DataError(
                f"{path} must be a file; it is a pipe, a socket, a device or a folder. Copy what "
                "it holds into a file."
            )
        yield
    except DataError:
        raise
    except _UNREADABLE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(
            f"{path} cannot be read: {reason}. It is truncated, damaged or not of the format its "
            "name says; fetch or write it again."
        ) from error


def listed(folder: Path) -> list[os.DirEntry[str]]:
    """What a folder holds."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise DataError(
            f"{folder} cannot be read: {error.strerror or error}. Allow reading it, or name "
            "another folder."
        ) from error


def check_fits(n_bytes: float, what: str) -> None:
    """Refuse before allocating what this machine cannot hold."""
    free = available_memory()
    if n_bytes > free:
        raise DataError(
            f"{what} would take {n_bytes / 1e9:,.1f} GB of memory; {free / 1e9:,.1f} GB are free, "
            f"{free / n_bytes:.2g} of it. Take fewer samples or columns, or a larger machine."
        )
