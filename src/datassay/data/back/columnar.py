"""Parquet, Feather and Arrow given back: schema, metadata, types and compression as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Bool
from pyarrow import feather, ipc

from datassay.data.files.arrow import read_arrow
from datassay.errors import DataError

_INDEX = "__index_level_0__"  # as pandas names labels of rows that have no name


def stored_table(path: Path) -> pa.Table:
    """The table as it is in the file, types and metadata included.

    Args:
        path: .parquet, .feather or .arrow.

    Returns:
        One row a sample.
    """
    if path.suffix.lower() != ".parquet":
        return read_arrow(path)
    with pq.ParquetFile(path) as file:
        return file.read()


def write_like(table: pa.Table, path: Path, like: Path) -> None:
    """Write a table as another file was written.

    Args:
        table: to write.
        path: of the new file.
        like: the file that it was read from.
    """
    kind = path.suffix.lower()
    if kind == ".parquet":
        with pq.ParquetFile(like) as file:
            pq.write_table(table, path, **_options(file.metadata))
    elif kind == ".feather":
        feather.write_feather(table, str(path))
    else:
        is_file = like.read_bytes()[:6] == b"ARROW1"
        new = ipc.new_file if is_file else ipc.new_stream
        with pa.OSFile(str(path), "wb") as sink, new(sink, table.schema) as writer:
            writer.write_table(table)


def _options(metadata: pq.FileMetaData) -> dict[str, Any]:
    """How a Parquet file was written: its compression a column, the rows of its groups."""
    if not metadata.num_row_groups or not metadata.num_columns:
        return {}
    group = metadata.row_group(0)
    columns = [group.column(c) for c in range(metadata.num_columns)]
    codecs = {c.path_in_schema: c.compression.lower() for c in columns}
    codecs = {name: "none" if c == "uncompressed" else c for name, c in codecs.items()}
    return {"compression": codecs, "row_group_size": max(1, group.num_rows)}


def without_range(table: pa.Table) -> pa.Table:
    """The table with row labels of pandas that are a range other than 0, 1, ... as a column.

    Without some rows they are no range any more; pandas, too, then writes a column. A range from 0
    only counts the rows, and still does so.

    Args:
        table: with pandas' metadata, or without.

    Returns:
        The same rows.
    """
    try:
        about = json.loads((table.schema.metadata or {})[b"pandas"])
        (index,) = about["index_columns"]
        labels = range(index["start"], index["stop"], index["step"])
    except (ValueError, LookupError, TypeError):
        return table
    if len(labels) != table.num_rows:
        return table
    if (labels.start, labels.step) == (0, 1):
        about["index_columns"] = []
        return table.replace_schema_metadata({
            **table.schema.metadata,
            b"pandas": json.dumps(about).encode(),
        })
    name = index.get("name") or _INDEX
    column = {"name": index.get("name"), "field_name": name, "pandas_type": "int64",
              "numpy_type": "int64", "metadata": None}  # fmt: skip
    about |= {"index_columns": [name], "columns": [*about["columns"], column]}
    metadata = {**table.schema.metadata, b"pandas": json.dumps(about).encode()}
    return table.append_column(name, pa.array(labels, pa.int64())).replace_schema_metadata(metadata)


def with_rows(
    table: pa.Table,
    column: str,
    keep: Bool[np.ndarray, " rows"],
    donor: dict[int, int],
    number: dict[int, float],
) -> pa.Table:
    """The table without some rows, and with other values in one column of others.

    Args:
        table: as it is stored.
        column: name of the column.
        keep: which rows stay.
        donor: row → the row whose value it gets.
        number: row → the number it gets.

    Returns:
        The table; types and metadata as they were.

    Raises:
        DataError: the column's type cannot hold one of the numbers.
    """
    place, values = table.column_names.index(column), table[column]
    if donor:
        rows = np.arange(table.num_rows)
        rows[list(donor)] = list(donor.values())
        values = values.take(pa.array(rows))
    if number:
        new, is_new = [None] * table.num_rows, np.isin(np.arange(table.num_rows), list(number))
        for row, value in number.items():
            new[row] = value
        try:
            values = pc.if_else(pa.array(is_new), pa.array(new).cast(values.type), values)  # type: ignore[attr-defined]
        except (pa.ArrowException, ValueError) as error:
            raise DataError(
                f"column {column!r} must hold its new targets as {values.type}; "
                f"{' '.join(str(error).split())}. Decide on numbers of that kind."
            ) from error
    table = table.set_column(place, table.schema.field(place), values)
    return table if keep.all() else without_range(table).filter(pa.array(keep))
