"""Where samples came from: how they were read, a digest of it, and files of what was in memory."""

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
from datassay.optional import coalesce
from datassay.store.digests import file_digest


@dataclass(frozen=True, slots=True)
class Origin:
    """What is needed to read the same samples again, and to check that they are the same."""

    inputs: dict[str, Any]  # the arguments they were read by
    digest: str  # of `source_digest`
    noise: float  # the share of labels that were changed on purpose

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for summary.json."""
        return asdict(self)


def file_digests(path: Path) -> dict[str, str]:
    """Return relative path → SHA-256 of each data file in a folder; "" → that of one file."""
    digests = {}
    names = files_in(path) if path.is_dir() else [""]
    for name in names:
        with reading(path / name):
            digests[name] = file_digest(path / name)
    return digests


def source_digest(data: str | Path) -> str:
    """Return one SHA-256 of a data file or folder; "built-in NAME" for built-in data."""
    if str(data) in BUILTINS:
        return f"built-in {data}"
    path = Path(data).expanduser()
    digests = file_digests(path)
    if path.is_dir():
        return folder_digest(digests)
    return digests[""]


def folder_digest(digests: dict[str, str]) -> str:
    """Return the SHA-256 of a folder's names and bytes from those of its files."""
    lines = "".join(f"{name}\0{digest}\n" for name, digest in digests.items())
    return hashlib.sha256(os.fsencode(lines)).hexdigest()


TABLE = "data.parquet"
ARRAYS = "data.npz"


def keep(
    data: Any, folder: Path, *,
    target: Any = None, ids: Any = None, source: Any = None, **asides: Any,
) -> tuple[Path, dict[str, Any]]:  # fmt: skip
    """Write in-memory data to a file; return its path and the column roles needed to load it."""
    table = frame_table(data)
    if table is not None:
        choices = Choices(join_targets(target), ids, source, **asides)
        return _write_table(table, folder / TABLE, choices)
    if isinstance(data, tuple | list) and len(data) == 2:
        read_frame = frame_with_targets(data[0], data[1], ids, source)
        if isinstance(read_frame, tuple):
            table, _, choices = read_frame
            return _write_table(table, folder / TABLE, choices)
    read = read_in_memory(data, ids, source)
    if read is None:
        raise DataError(
            "data must be a data frame, (x, y) arrays or a Dataset to be stored; got a "
            f"{type(data).__name__}."
        )
    return _write_arrays(read, folder / ARRAYS)


def _write_table(table: pa.Table, path: Path, choices: Choices) -> tuple[Path, dict[str, Any]]:
    """Write a frame with the names of its rows as a column; return its path and roles."""
    table, index_column = row_ids(table)
    ids = coalesce(choices.ids, index_column)
    roles = {ids, *choices.asides}
    unused = [n for n in row_labels(table) if n not in {choices.target, *roles}]
    # The metadata in which pandas describes its index no longer holds.
    pq.write_table(table.drop_columns(unused).replace_schema_metadata(None), path)
    sides = {choices.roles[c]: c for c in choices.asides}
    return path, {"target": choices.target, "ids": ids, **sides}


def _write_arrays(read: Source, path: Path) -> tuple[Path, dict[str, Any]]:
    """Write arrays as .npz; return its path and no roles, which the arrays' names tell."""
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
