"""MNIST-style folders: images and labels in IDX files, gzipped or not."""

import gzip
import os
import re
from math import prod
from pathlib import Path

import numpy as np

from datassay.data.back.original import Original, files_in, find_donors, hand_on, ids_after
from datassay.data.format import Format
from datassay.data.source import Source, SourcePart, Task, check_fits, reading, scan
from datassay.data.targets import encode_targets
from datassay.errors import DataError
from datassay.optional import text_if

# IDX type codes → big-endian NumPy types.
_TYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_PIECE = 2**24  # bytes
_NAME = re.compile(r"(images|labels)[-._]idx\d", re.IGNORECASE)


def _idx_files(folder: Path) -> list[Path]:
    """Return the files in the folder whose names say IDX images or labels, sorted."""
    return [folder / e.name for e in scan(folder) if os.path.isfile(e) and _NAME.search(e.name)]


def read_idx_folder(folder: Path) -> Source:
    """Read a source from `train-images-idx3-ubyte`, `train-labels-...`, `t10k-` or `test-`.

    Args:
        folder: holds the files, each with or without .gz (the plain one is read where both are).

    Returns:
        The source; x [n, 1, height, width] float32 in [0, 1]; val is the test part if there.

    Raises:
        DataError: the training part is missing.
    """
    files = _idx_files(folder)
    train = _read_part(files, r"train")
    if train is None:
        raise DataError(
            f"{folder} must hold train-images-idx3-ubyte and train-labels-idx1-ubyte, each with or "
            f"without .gz; got {', '.join(p.name for p in files)}. Add or rename them."
        )
    val = _read_part(files, r"t10k|test")
    return Source(folder.name, train, val, task="classification", kind="image")


def _find_pair(files: list[Path], pattern: str) -> tuple[Path, Path] | None:
    """Return (images, labels), the files that match the pattern; None if there are none."""
    pair = []
    for content in ("images", "labels"):
        name = re.compile(rf"(?i)({pattern}).*{content}")
        # In reverse, so that a plain file replaces that of the same name with .gz.
        matches = {p.name.removesuffix(".gz"): p for p in reversed(files) if name.search(p.name)}
        if len(matches) > 1:
            raise DataError(
                f"a folder must hold one data set; got {', '.join(sorted(matches))}. Move each "
                "set to a folder of its own."
            )
        pair += matches.values()
    if len(pair) == 1:
        raise DataError(
            f"images and labels must come together; {pair[0]} has no counterpart. "
            "Add it to the folder."
        )
    if not pair:
        return None
    return (pair[0], pair[1])


def _read_part(files: list[Path], pattern: str) -> SourcePart | None:
    """Return the samples in the files whose names match; None where there are none."""
    pair = _find_pair(files, pattern)
    if pair is None:
        return None
    images, labels = pair
    x = read_idx(images)
    if x.ndim != 3 or x.dtype != np.uint8:
        raise DataError(
            f"{images} must hold bytes in 3 dimensions; got {x.dtype} in {x.ndim}. "
            "Convert it, or pass the arrays themselves as (x, y)."
        )
    return SourcePart(
        (x[:, None] / np.float32(255)).astype(np.float32, copy=False), read_idx(labels)
    )


def read_idx(path: Path) -> np.ndarray:
    """Read the array in one IDX file.

    Args:
        path: the file; gzipped if its name ends in .gz.

    Returns:
        The array, in the shape and type that the file states, native byte order.

    Raises:
        DataError: not an IDX file, shorter or longer than it states, or too large for memory.
    """
    open_file = open
    if path.suffix == ".gz":
        open_file = gzip.open
    with reading(path), open_file(path, "rb") as file:
        start = file.read(4)
        if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in _TYPES:
            raise DataError(
                f"{path} must start as an IDX file (0, 0, type, dimensions); got {start!r}. "
                "Fetch it again."
            )
        _, _, type_code, n_axes = start
        sizes = file.read(4 * n_axes)
        shape = tuple(int.from_bytes(sizes[i : i + 4], "big") for i in range(0, len(sizes), 4))
        dtype = np.dtype(_TYPES[type_code])
        expected = prod(shape) * dtype.itemsize
        check_fits(expected, f"the array in {path}")
        # One byte more than is stated tells of a longer file, and no more is unpacked: bytes are
        # taken as they come, for the stated number may be far beyond the file's.
        pieces = []
        n_left = expected + 1
        while n_left and (piece := file.read(min(n_left, _PIECE))):
            pieces.append(piece)
            n_left -= len(piece)
    content = b"".join(pieces)
    if len(sizes) < 4 * n_axes or len(content) != expected:
        head = len(start) + len(sizes)
        ending = text_if(len(content) > expected, " or more")
        raise DataError(
            f"{path} must hold {head + expected} bytes for its shape {shape}; got "
            f"{head + len(content)}{ending}. It is truncated or damaged; fetch it again."
        )
    values = np.frombuffer(content, dtype).reshape(shape)
    return values.astype(dtype.newbyteorder("="), copy=False)


def _open_original(folder: Path, task: Task | None, may_link: bool) -> Original:
    """Return the training part to be written with other labels; the test part is copied."""
    pair = _find_pair(_idx_files(folder), "train")
    if pair is None:
        raise DataError(f"{folder} must hold images and labels of train; it holds neither.")
    images, labels = pair
    stored = read_idx(labels)
    y, _, names = encode_targets(stored, None, (), "classification")
    ids = np.arange(len(y))

    def write(target: Path, keep: np.ndarray, labels_after: np.ndarray) -> np.ndarray:
        """Write both parts with new labels; return the ids of the samples that stay."""
        rows = ids.copy()
        changed = find_donors(y, np.where(keep, labels_after, y), names)
        rows[list(changed)] = list(changed.values())
        arrays = {labels: stored[rows][keep]}
        if not keep.all():
            arrays[images] = read_idx(images)[keep]
        for name in files_in(folder):
            if folder / name not in arrays:
                hand_on(folder / name, target / name, may_link=may_link)
        for file, values in arrays.items():
            kind = f"{values.dtype.kind}{values.dtype.itemsize}"
            code = next(code for code, name in _TYPES.items() if name.lstrip(">") == kind)
            sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
            content = bytes([0, 0, code, values.ndim]) + sizes
            content += values.astype(values.dtype.newbyteorder(">")).tobytes()
            if file.suffix == ".gz":
                content = gzip.compress(content, mtime=0)
            (target / file.name).write_bytes(content)
        return ids_after(ids, keep, is_numbered=True)

    return Original(ids, y, names, is_numbered=True, file="", write=write)


FORMAT = Format(
    name="IDX",
    holds="IDX files (train-images-idx3-ubyte.gz ...)",
    is_folder=lambda folder: bool(_idx_files(folder)),
    read=read_idx_folder,
    give_back=_open_original,
)
