"""Parquet files: refused before they are read where they would not fit, given back as written."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from datassay.data.back.original import Change, apply_change
from datassay.data.format import TableFormat
from datassay.data.source import check_fits
from datassay.data.tables.columns import decode_column


def _read(path: Path, ids: str | None) -> pa.Table:
    """Return the table in a Parquet file, with pandas' row labels as columns."""
    with path.open("rb") as opened, pq.ParquetFile(opened) as file:  # by a name of any bytes
        fields = file.schema_arrow
        metadata = file.metadata
    groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
    # Of all columns; of columns of lists the values in these.
    n_values = sum(g.column(c).num_values for g in groups for c in range(g.num_columns))
    unpacked = sum(g.total_byte_size for g in groups)
    check_fits(max(8.0 * n_values, unpacked), f"the values in {path}")
    words = [f.name for f in fields if pt.is_string(f.type) or pt.is_large_string(f.type)]
    # Words that repeat are read once; `decode_column` checks that all of them fit into memory.
    options: dict[str, Any] = {"buffer_size": 2**20, "read_dictionary": words}
    with path.open("rb") as opened, pq.ParquetFile(opened, **options) as file:
        table = file.read()
    for index, field in enumerate(fields):
        if field.name in words and pt.is_dictionary(table.field(index).type):
            column = decode_column(table.column(index), field.name)
            table = table.set_column(index, field.name, column.cast(field.type))
    pa.default_memory_pool().release_unused()
    return table


def _write(path: Path, target: Path, change: Change) -> None:
    """Write the table with other labels and rows removed, compressed as before."""
    with path.open("rb") as opened, pq.ParquetFile(opened) as file:
        options: dict[str, Any] = {}
        if file.metadata.num_row_groups and file.metadata.num_columns:
            group = file.metadata.row_group(0)
            columns = [group.column(c) for c in range(file.metadata.num_columns)]
            codecs = {c.path_in_schema: c.compression.lower() for c in columns}
            codecs = {name: "none" if c == "uncompressed" else c for name, c in codecs.items()}
            options = {"compression": codecs, "row_group_size": max(1, group.num_rows)}
        with target.open("wb") as written:
            pq.write_table(apply_change(file.read(), change), written, **options)


FORMAT = TableFormat(name="Parquet", suffixes=(".parquet",), read=_read, give_back=_write)
