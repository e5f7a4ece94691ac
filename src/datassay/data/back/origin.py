"""Where samples came from: how they were read, a digest of it, and files of what was in memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from datassay.data.back.changelog import FILES
from datassay.data.memory.convert import frame_with_targets, read_in_memory
from datassay.data.memory.frames import frame_table, row_ids, row_labels
from datassay.data.source import Source, reading
from datassay.data.synthetic.builtin import BUILTINS
from datassay.data.tables.choices import Choices
from datassay.errors import DataError


@dataclass(frozen=True, slots=True)
class Origin:
    """What is needed to read the same samples again, and to know them.

    Attributes:
        inputs: arguments of `load`, plain values; "data" is a built-in name or an absolute path.
        digest: from `source_digest`.
        noise: share of the labels that was flipped on purpose: the file has other labels.
    """

    inputs: dict[str, Any]
    digest: str
    noise: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for summary.json."""
        return asdict(self)


def source_digest(data: str | Path) -> str:
    """SHA-256 of a file's bytes, or of the names and bytes of all files of a folder.

    Args:
        data: a path, or a built-in name.

    Returns:
        64 hexadecimal digits; a built-in name stands for itself.

    Raises:
        DataError: a file cannot be read.

    Cost: one reading of everything.
    """
    if str(data) in BUILTINS:
        return f"built-in {data}"
    path = Path(data).expanduser()
    whole = hashlib.sha256()
    for file in _files(path):
        with reading(file), file.open("rb") as opened:
            one = hashlib.file_digest(opened, "sha256").hexdigest()
        if file == path:
            return one
        whole.update(f"{file.relative_to(path).as_posix()}\0{one}\n".encode())
    return whole.hexdigest()


def _files(path: Path) -> Iterator[Path]:
    """The file, or all files of a folder by name; hidden ones and our changelog are no data."""
    if not path.is_dir():
        yield path
        return
    seen = set()  # a link can lead back to a folder above it
    for folder, folders, names in os.walk(path, followlinks=True):
        seen.add(os.path.realpath(folder))
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and os.path.realpath(os.path.join(folder, name)) not in seen
        )
        files = [Path(folder) / name for name in sorted(names) if not name.startswith(".")]
        yield from (file for file in files if file.parent != path or file.name not in FILES)


TABLE, ARRAYS = "data.parquet", "data.npz"


def keep(
    data: Any, folder: Path, *, target: str | None = None, ids: Any = None, source: Any = None
) -> tuple[Path, dict[str, Any]]:
    """Write what `load` was given to a file.

    Args:
        data: a data frame, arrays or Datasets, as `load` takes them.
        folder: an existing one; the file is data.parquet or data.npz in it.
        target: as `load` was given it.
        ids: likewise.
        source: likewise.

    Returns:
        The file, and with which target, ids and source to load it.

    Raises:
        DataError: the data are none of these.
    """
    if (table := frame_table(data)) is not None:
        return _table(table, folder / TABLE, Choices(target, ids, source))
    is_pair = isinstance(data, tuple | list) and len(data) == 2
    if is_pair and isinstance(found := frame_with_targets(data[0], data[1], ids, source), tuple):
        return _table(found[0], folder / TABLE, found[2])
    read = read_in_memory(data, ids, source)
    if read is None:
        raise DataError(
            "data must be a data frame, (x, y) arrays or a Dataset to be kept; got a "
            f"{type(data).__name__}."
        )
    return _arrays(read, folder / ARRAYS)


def _table(table: pa.Table, path: Path, chosen: Choices) -> tuple[Path, dict[str, Any]]:
    """A frame; what named its rows is a column like others, which `ids` names."""
    table, labels = row_ids(table)
    ids = labels if chosen.ids is None else chosen.ids
    unused = [n for n in row_labels(table) if n not in {chosen.target, ids, chosen.source}]
    # What pandas said of its index says nothing any more.
    pq.write_table(table.drop_columns(unused).replace_schema_metadata(None), path)
    rest = [n for n in table.column_names if n not in {*unused, ids, chosen.source}]
    target = rest[-1] if chosen.target is None and rest else chosen.target
    return path, {"target": target, "ids": ids, "source": chosen.source}


def _arrays(read: Source, path: Path) -> tuple[Path, dict[str, Any]]:
    parts = {"x": read.train.x, "y": read.train.y, "ids": read.train.ids}
    parts["source"] = read.train.source
    if read.val is not None:
        parts |= {"x_val": read.val.x, "y_val": read.val.y, "source_val": read.val.source}
    arrays: dict[str, Any] = {
        name: _unpickled(values) for name, values in parts.items() if values is not None
    }
    np.savez(path, **arrays)
    return path, {}


def _unpickled(values: np.ndarray) -> np.ndarray:
    """Objects, which only pickle could hold, as strings."""
    return values.astype(str) if values.dtype == object else values
