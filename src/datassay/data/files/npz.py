"""NumPy archives: x, y and, where there, x_val, y_val, ids, class_names, source, source_val."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from datassay.data.arrays import to_numpy
from datassay.data.source import Part, Source, reading
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
        DataError: an array is missing, pickled or unreadable.
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
        with np.load(file, allow_pickle=False) as archive:
            return {key: _array(archive, key, path) for key in _KEYS if key in archive.files}


def _array(archive: np.lib.npyio.NpzFile, key: str, path: Path) -> np.ndarray:
    try:
        return to_numpy(archive[key], key)
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise DataError(
            f"{key} in {path} is an array of Python objects, and pickled data is refused because "
            "loading it can run code. Save it as numbers or as strings: np.asarray(..., dtype=str)."
        ) from error
