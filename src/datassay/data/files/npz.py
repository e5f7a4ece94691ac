"""NumPy archives: x, y and, where there, x_val, y_val, ids, class_names, source, source_val."""

from __future__ import annotations

import zipfile
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from datassay.data.arrays import to_numpy
from datassay.data.source import Part, Source, check_fits, reading
from datassay.errors import DataError

_ZIP_STARTS = (b"PK\x03\x04", b"PK\x05\x06")
_KEYS = ("x", "y", "x_val", "y_val", "ids", "class_names", "source", "source_val")


def read_npz(path: Path) -> Source:
    """A source from an .npz file; pickled arrays are refused, never loaded.

    Args:
        path: the file; other arrays in it are not read.

    Returns:
        The source; ids name the samples of x, class_names the classes that y indexes or names,
        source and source_val where the samples of x and of x_val came from.

    Raises:
        DataError: an array is missing, pickled or unreadable, or would not fit into memory.
    """
    arrays = _arrays(path)
    needed = {"x", "y"} | ({"x_val", "y_val"} if {"x_val", "y_val"} & arrays.keys() else set())
    missing = sorted(needed - arrays.keys())
    if missing:
        raise DataError(
            f"{path} must hold the arrays {', '.join(sorted(needed))}; {', '.join(missing)} is "
            "missing. Write it with np.savez(path, x=..., y=...)."
        )
    val = None
    if "x_val" in arrays:
        val = Part(arrays["x_val"], arrays["y_val"], source=arrays.get("source_val"))
    names = arrays.get("class_names", np.array([], dtype=str))
    return Source(
        name=path.stem,
        train=Part(arrays["x"], arrays["y"], arrays.get("ids"), source=arrays.get("source")),
        val=val,
        class_names=tuple(str(name) for name in names.ravel()),
    )


def _arrays(path: Path) -> dict[str, np.ndarray]:
    with reading(path), path.open("rb") as file:  # np.load leaves a path open when it fails
        if file.read(4) not in _ZIP_STARTS:
            raise DataError(
                f"{path} cannot be read as an .npz archive: it does not start as a zip file. "
                "Pickled data and bare arrays are refused; write np.savez(path, x=..., y=...)."
            )
        file.seek(0)
        with zipfile.ZipFile(file) as archive:
            there = set(archive.namelist())
            keys = [key for key in _KEYS if f"{key}.npy" in there]
            sizes = {key: _stated_size(archive, key, path) for key in keys}
            check_fits(sum(sizes.values()), f"the arrays in {path}")
            return {key: to_numpy(_array(archive, key), key) for key in keys}


def _stated_size(archive: zipfile.ZipFile, key: str, path: Path) -> int:
    """Bytes of an array by its header, which must be what the archive holds of it."""
    with archive.open(f"{key}.npy") as member:
        shape, _, dtype = _header(member)
        start = member.tell()
    if dtype.hasobject:
        raise DataError(
            f"{key} in {path} is an array of Python objects, and pickled data is refused because "
            "loading it can run code. Save it as numbers or as strings: np.asarray(..., dtype=str)."
        )
    size, held = prod(shape) * dtype.itemsize, archive.getinfo(f"{key}.npy").file_size - start
    if size != held or min(shape, default=0) < 0:
        raise DataError(
            f"{path} cannot be read: {key} must hold {size:,} bytes for its shape {shape}; it "
            f"holds {held:,}. It is truncated or damaged; write it again."
        )
    return size


def _header(member: Any) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = npy.read_magic(member)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    return read(member)


def _array(archive: zipfile.ZipFile, key: str) -> np.ndarray:
    with archive.open(f"{key}.npy") as member:
        return npy.read_array(member, allow_pickle=False)
