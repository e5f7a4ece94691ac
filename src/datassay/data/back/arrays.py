"""NumPy archives given back, and built-in sets given as one."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Shaped
from numpy.lib import format as npy

from datassay.data.back.original import Original, ids_after
from datassay.data.files.npz import read_npz
from datassay.data.source import Source, reading
from datassay.data.synthetic.builtin import read_builtin
from datassay.data.targets import encode_targets
from datassay.errors import DataError

OF_SAMPLES = ("x", "y", "ids", "source")
OF_OTHERS = ("x_val", "y_val", "source_val", "class_names")


def original_npz(path: Path, task: str | None) -> Original:
    """A NumPy archive as it is stored.

    Arrays that the archive holds beside those that `load` reads lose the same rows where they
    have as many as x, and are handed on otherwise.

    Args:
        path: .npz.
        task: what to predict; None: y says.

    Returns:
        Ids and labels of x; x_val and y_val are handed on.

    Raises:
        DataError: what `load` raises of such a file.
    """
    source = read_npz(path)
    val_y = None if source.val is None else source.val.y
    y, _, names = encode_targets(source.train.y, val_y, source.class_names, task)  # pyright: ignore[reportArgumentType]
    ids = np.arange(len(y)) if source.train.ids is None else source.train.ids
    is_numbered, others = source.train.ids is None, _others(path, len(y))

    def write(folder: Path, keep: np.ndarray, new: np.ndarray) -> np.ndarray:
        changed = as_stored(source, y, np.where(_rows_of(keep, new), new, y), names)
        with reading(path), zipfile.ZipFile(path) as archive, zipfile.ZipFile(
            folder / path.name, "w"
        ) as target:  # fmt: skip
            for info in archive.infolist():
                content = archive.read(info)
                name = info.filename.removesuffix(".npy")
                if name in (*OF_SAMPLES, *others):
                    content = _kept(content, name, keep, changed if name == "y" else None)
                target.writestr(info, content, info.compress_type)
        return ids_after(ids, keep, is_numbered=is_numbered)

    notes = (f"arrays with a row a sample: {', '.join(sorted(others))}",) if others else ()
    return Original(ids, y, names, is_numbered, path.name, write, notes)


def original_builtin(name: str) -> Original:
    """A built-in set, which is given as an .npz file with ids.

    Args:
        name: of the set.

    Returns:
        Ids and labels of all samples.
    """
    source = read_builtin(name)
    y, _, names = encode_targets(source.train.y, None, source.class_names, source.task)
    ids = np.arange(len(y))

    def write(folder: Path, keep: np.ndarray, new: np.ndarray) -> np.ndarray:
        parts = {"x": source.train.x, "y": as_stored(source, y, new, names), "ids": ids}
        parts |= {} if source.train.source is None else {"source": source.train.source.astype(str)}
        arrays = {part: values[keep] for part, values in parts.items()}
        if names:
            arrays["class_names"] = np.array(names)
        np.savez(folder / f"{name}.npz", **arrays)
        return ids[keep]

    return Original(ids, y, names, False, f"{name}.npz", write)


def as_stored(
    source: Source,
    y: Shaped[np.ndarray, " n *k"],
    new: Shaped[np.ndarray, " n *k"],
    names: tuple[str, ...],
) -> np.ndarray:
    """Labels as the source has them: names or indices of classes, whole numbers or others.

    Args:
        source: as it was read.
        y: [n] class indices, or targets.
        new: what they are to be.
        names: of the classes; empty: y holds targets.

    Returns:
        Of the source's type and shape; a new name may need wider strings.

    Raises:
        DataError: the source's type cannot hold a new target.
    """
    stored, is_new = source.train.y, (new != y).reshape(len(y), -1).any(axis=1)
    if not is_new.any():
        return stored
    if not names:
        values = new[is_new].astype(stored.dtype)
        if (values != new[is_new]).any() and stored.dtype.kind in "iub":
            raise DataError(
                f"y must hold its new targets as {stored.dtype}; some have a fraction. Decide on "
                "whole numbers."
            )
    else:
        classes = np.unique(stored)
        if source.class_names:
            is_named = stored.dtype.kind in "UO"
            classes = np.array(names, object) if is_named else np.arange(len(names))
        values = classes[new[is_new]]
    is_text = stored.dtype.kind == "U"
    given = np.array(stored, object if is_text else stored.dtype)
    given[is_new] = values.reshape(given[is_new].shape)
    return given.astype(str) if is_text else given


def _rows_of(keep: np.ndarray, y: np.ndarray) -> np.ndarray:
    return keep.reshape(-1, *[1] * (y.ndim - 1))


def _others(path: Path, n: int) -> set[str]:
    """Arrays that `load` does not read and that have a row a sample."""
    found = set()
    with reading(path), zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            name = member.removesuffix(".npy")
            if name == member or name in (*OF_SAMPLES, *OF_OTHERS):
                continue
            with archive.open(member) as file:
                version = npy.read_magic(file)
                read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                found |= {name} if read(file)[0][:1] == (n,) else set()
    return found


def _kept(
    content: bytes, name: str, keep: Bool[np.ndarray, " n"], changed: np.ndarray | None
) -> bytes:
    """The rows of a stored array that stay, as they are stored."""
    if changed is None and keep.all():
        return content
    try:
        values = npy.read_array(io.BytesIO(content), allow_pickle=False)
    except ValueError as error:
        raise DataError(
            f"{name} must hold numbers or strings so that its rows can be removed; it is pickled. "
            "Save it as np.asarray(..., dtype=str)."
        ) from error
    values = values if changed is None else changed.astype(values.dtype) if (
        changed.dtype.kind != "U") else changed  # fmt: skip
    out = io.BytesIO()
    npy.write_array(out, values[keep], allow_pickle=False)
    return out.getvalue()
