"""Where samples came from: how they were read, a digest of it, and files of what was in memory."""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from datassay.data.back.original import files_in
from datassay.data.memory.convert import frame_with_targets, read_in_memory
from datassay.data.memory.frames import frame_table, row_ids, row_labels
from datassay.data.source import Source, reading
from datassay.data.synthetic.builtin import BUILTINS
from datassay.data.tables.read import Choices, join_targets
from datassay.errors import DataError


@dataclass(frozen=True, slots=True)
class Origin:
    """What is needed to read the same samples again, and to know them."""

    inputs: dict[str, Any]
    digest: str
    noise: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for summary.json."""
        return asdict(self)


def source_digest(data: str | Path) -> str:
    """SHA-256 of a file's bytes, or of names and bytes of a folder; a built-in name as it is."""
    if str(data) in BUILTINS:
        return f"built-in {data}"
    path = Path(data).expanduser()
    digests = {}
    for name in files_in(path) if path.is_dir() else [""]:
        with reading(path / name), (path / name).open("rb") as file:
            digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
    if not path.is_dir():
        return digests[""]
    lines = "".join(f"{name}\0{digest}\n" for name, digest in digests.items())
    return hashlib.sha256(os.fsencode(lines)).hexdigest()


TABLE, ARRAYS = "data.parquet", "data.npz"


def keep(
    data: Any, folder: Path, *,
    target: Any = None, ids: Any = None, source: Any = None, **asides: Any,
) -> tuple[Path, dict[str, Any]]:  # fmt: skip
    """Write what `load` was given to a file; that, and its roles' columns to load it."""
    if (table := frame_table(data)) is not None:
        return _table(table, folder / TABLE, Choices(join_targets(target), ids, source, **asides))
    is_pair = isinstance(data, tuple | list) and len(data) == 2
    if is_pair and isinstance(result := frame_with_targets(data[0], data[1], ids, source), tuple):
        return _table(result[0], folder / TABLE, result[2])
    read = read_in_memory(data, ids, source)
    if read is None:
        raise DataError(
            "data must be a data frame, (x, y) arrays or a Dataset to be stored; got a "
            f"{type(data).__name__}."
        )
    return _arrays(read, folder / ARRAYS)


def _table(table: pa.Table, path: Path, chosen: Choices) -> tuple[Path, dict[str, Any]]:
    """A frame; what named its rows is a column like others, which `ids` names."""
    table, labels = row_ids(table)
    ids = labels if chosen.ids is None else chosen.ids
    roles = {ids, *chosen.asides}
    unused = [n for n in row_labels(table) if n not in {chosen.target, *roles}]
    # What pandas said of its index says nothing any more.
    pq.write_table(table.drop_columns(unused).replace_schema_metadata(None), path)
    rest = [n for n in table.column_names if n not in {*unused, *roles}]
    target = rest[-1] if chosen.target is None and rest else chosen.target
    return path, {"target": target, "ids": ids, **{chosen.roles[c]: c for c in chosen.asides}}


def _arrays(read: Source, path: Path) -> tuple[Path, dict[str, Any]]:
    parts = {"x": read.train.x, "y": read.train.y, "ids": read.train.ids}
    parts["source"] = read.train.source
    if read.val is not None:
        parts |= {"x_val": read.val.x, "y_val": read.val.y, "source_val": read.val.source}
    # Objects, which only pickle could hold, as strings.
    arrays: dict[str, Any] = {
        name: values.astype(str) if values.dtype == object else values
        for name, values in parts.items()
        if values is not None
    }
    np.savez(path, **arrays)
    return path, {}
