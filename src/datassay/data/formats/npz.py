"""NumPy archives: x, y and, where there, x_val, y_val, ids, class_names, source, source_val."""

import io
import zipfile
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Shaped
from numpy.lib import format as npy

from datassay.data.back.original import Original, ids_after, restore_type
from datassay.data.format import Format
from datassay.data.source import Source, SourcePart, Task, check_fits, reading, to_numpy
from datassay.data.synthetic.builtin import BUILTINS
from datassay.data.targets import encode_targets
from datassay.errors import DataError
from datassay.optional import coalesce

_ZIP_STARTS = (b"PK\x03\x04", b"PK\x05\x06")
_OF_SAMPLES = ("x", "y", "ids", "source")
_KEYS = ("x", "y", "x_val", "y_val", "ids", "class_names", "source", "source_val")


def _read(path: Path) -> Source:
    """Return the samples in an .npz file; raise for pickled arrays."""
    arrays = _read_arrays(path)
    needed = {"x", "y"}
    if {"x_val", "y_val"} & arrays.keys():
        needed |= {"x_val", "y_val"}
    missing = sorted(needed - arrays.keys())
    if missing:
        raise DataError(
            f"{path} must hold the arrays {', '.join(sorted(needed))}; {', '.join(missing)} is "
            "missing. Write it with np.savez(path, x=..., y=...)."
        )
    val = None
    if "x_val" in arrays:
        val = SourcePart(arrays["x_val"], arrays["y_val"], source=arrays.get("source_val"))
    names = arrays.get("class_names", np.array([], dtype=str))
    return Source(
        name=path.stem,
        train=SourcePart(arrays["x"], arrays["y"], arrays.get("ids"), source=arrays.get("source")),
        val=val,
        class_names=tuple(str(name) for name in names.ravel()),
    )


def inputs_of(path: Path) -> SourcePart:
    """Return x and ids of new samples from an .npz file; their unknown targets are 0."""
    arrays = _read_arrays(path)
    if "x" not in arrays or "x_val" in arrays:
        raise DataError(
            f"{path} must hold the samples to predict as the array x, and no x_val; it holds "
            f"{', '.join(arrays) or 'none of these'}. Write it with np.savez(path, x=...)."
        )
    return SourcePart(arrays["x"], np.zeros(len(arrays["x"])), arrays.get("ids"))


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return name → array for the names that we know, of an .npz archive."""
    with reading(path), path.open("rb") as file:  # np.load leaves a path open when it fails
        if file.read(4) not in _ZIP_STARTS:
            raise DataError(
                f"{path} cannot be read as an .npz archive: it does not start as a zip file. "
                "Pickled data and bare arrays are refused; write np.savez(path, x=..., y=...)."
            )
        file.seek(0)
        with zipfile.ZipFile(file) as archive:
            members = set(archive.namelist())
            keys = [key for key in _KEYS if f"{key}.npy" in members]
            sizes = {key: _read_size(archive, key, path) for key in keys}
            check_fits(sum(sizes.values()), f"the arrays in {path}")
            return {
                key: to_numpy(npy.read_array(archive.open(f"{key}.npy"), allow_pickle=False), key)
                for key in keys
            }


def _read_size(archive: zipfile.ZipFile, key: str, path: Path) -> int:
    """Return an array's size in bytes by its header; raise if the archive has another."""
    with archive.open(f"{key}.npy") as member:
        shape, _is_fortran, dtype = _read_header(member)
        start = member.tell()
    if dtype.hasobject:
        raise DataError(
            f"{key} in {path} is an array of Python objects, and pickled data is refused because "
            "loading it can run code. Save it as numbers or as strings: np.asarray(..., dtype=str)."
        )
    size = prod(shape) * dtype.itemsize
    stored_size = archive.getinfo(f"{key}.npy").file_size - start
    if size != stored_size or min(shape, default=0) < 0:
        raise DataError(
            f"{path} cannot be read: {key} must hold {size:,} bytes for its shape {shape}; it "
            f"holds {stored_size:,}. It is truncated or damaged; write it again."
        )
    return size


def _read_header(member: Any) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Return shape, whether in Fortran order, and dtype from a .npy header."""
    version = npy.read_magic(member)
    if version == (1, 0):
        read = npy.read_array_header_1_0
    else:
        read = npy.read_array_header_2_0
    return read(member)


def _open_original(path: Path, task: Task | None, may_link: bool) -> Original:
    """Return the stored x and y, to be written with other labels; x_val, y_val stay."""
    # Other arrays of the archive lose the same rows if they have as many as x; else they stay.
    source = _read(path)
    val_y = None
    if source.val is not None:
        val_y = source.val.y
    y, _, names = encode_targets(source.train.y, val_y, source.class_names, task)
    y = restore_type(source.train.y, y)
    ids = coalesce(source.train.ids, np.arange(len(y)))
    is_numbered = source.train.ids is None
    extras = set()  # names of other arrays with a row per sample
    with reading(path), zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            name = member.removesuffix(".npy")
            if name != member and name not in _KEYS:
                with archive.open(member) as file:
                    shape, *_ = _read_header(file)
                if shape[:1] == (len(y),):
                    extras.add(name)

    def write(folder: Path, keep: np.ndarray, labels: np.ndarray) -> np.ndarray:
        stays = keep.reshape(-1, *[1] * (labels.ndim - 1))
        changed = _to_stored(source, y, np.where(stays, labels, y), names)
        with reading(path), zipfile.ZipFile(path) as archive, zipfile.ZipFile(
            folder / path.name, "w"
        ) as target:  # fmt: skip
            for info in archive.infolist():
                content = archive.read(info)
                name = info.filename.removesuffix(".npy")
                if name in (*_OF_SAMPLES, *extras):
                    content = _drop_rows(content, name, keep, changed if name == "y" else None)
                target.writestr(info, content, info.compress_type)
        return ids_after(ids, keep, is_numbered=is_numbered)

    notes = ()
    if extras:
        notes = (f"arrays with a row per sample: {', '.join(sorted(extras))}",)
    rows = _tabulate_bytes(source.train.x)
    return Original(
        ids, y, names, is_numbered, path.name, write, notes,
        other_columns=lambda keep: rows.filter(pa.array(keep)),
    )  # fmt: skip


def _tabulate_bytes(x: Shaped[np.ndarray, " n *shape"]) -> pa.Table:
    """Return a table with one column: the bytes of each sample's inputs, not copied."""
    content = np.ascontiguousarray(x)
    size = content.nbytes // max(1, len(content))
    values = [pa.py_buffer(content.reshape(-1).view(np.uint8))]
    rows = pa.FixedSizeBinaryArray.from_buffers(pa.binary(size), len(content), [None, *values])
    return pa.table({"x": rows})


def original_builtin(name: str) -> Original:
    """Return a built-in set, to be written as an .npz file with other labels."""
    source = BUILTINS[name]()
    y, _, names = encode_targets(source.train.y, None, source.class_names, source.task)
    ids = np.arange(len(y))

    def write(folder: Path, keep: np.ndarray, labels: np.ndarray) -> np.ndarray:
        parts = {"x": source.train.x, "y": _to_stored(source, y, labels, names), "ids": ids}
        if source.train.source is not None:
            parts |= {"source": source.train.source.astype(str)}
        arrays: dict[str, Any] = {key: values[keep] for key, values in parts.items()}
        if names:
            arrays["class_names"] = np.array(names)
        np.savez(folder / f"{name}.npz", **arrays)
        return ids[keep]

    return Original(ids, y, names, is_numbered=False, file=f"{name}.npz", write=write)


def _to_stored(
    source: Source,
    y: Shaped[np.ndarray, " n *k"],
    labels: Shaped[np.ndarray, " n *k"],
    names: tuple[str, ...],
) -> np.ndarray:
    """Return the new labels as the source has them: class names, indices or numbers."""
    # y, labels: before and after, class indices or targets; a new name may need wider strings.
    stored = source.train.y
    is_changed = (labels != y).reshape(len(y), -1).any(axis=1)
    if not is_changed.any():
        return stored
    if not names:
        values = labels[is_changed].astype(stored.dtype)
        if (values != labels[is_changed]).any() and stored.dtype.kind in "iub":
            raise DataError(
                f"y must hold its new targets as {stored.dtype}; some have a fraction. Decide on "
                "whole numbers."
            )
    else:
        classes = np.unique(stored)
        if source.class_names:
            is_named = stored.dtype.kind in "UO"
            if is_named:
                classes = np.array(names, object)
            else:
                classes = np.arange(len(names))
        values = classes[labels[is_changed]]
    is_text = stored.dtype.kind == "U"
    result = np.array(stored, object if is_text else stored.dtype)
    result[is_changed] = values.reshape(result[is_changed].shape)
    if is_text:
        return result.astype(np.result_type(stored, result.astype(str)))
    return result


def _drop_rows(
    content: bytes, name: str, keep: Bool[np.ndarray, " n"], changed: np.ndarray | None
) -> bytes:
    """Return the bytes of an array's .npy file without the removed rows."""
    if changed is None and keep.all():
        return content
    try:
        values = npy.read_array(io.BytesIO(content), allow_pickle=False)
    except ValueError as error:
        raise DataError(
            f"{name} must hold numbers or strings so that its rows can be removed; it is pickled. "
            "Save it as np.asarray(..., dtype=str)."
        ) from error
    if changed is not None:
        if changed.dtype.kind == "U":
            values = changed
        else:
            values = changed.astype(values.dtype)
    out = io.BytesIO()
    npy.write_array(out, values[keep], allow_pickle=False)
    return out.getvalue()


FORMAT = Format(name="npz", suffixes=(".npz",), read=_read, give_back=_open_original)
