"""Parquet files: refused before they are read where they would not fit, given back as written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from datassay.data.back.original import Change, with_rows
from datassay.data.format import TableFormat
from datassay.data.source import check_fits
from datassay.machine import available_memory

# Strings are held up to so many times: read, in one block, taken apart.
_COPIES = 3
_ROWS = 64  # read at a time of columns that may be far longer than the file
_RATIO = 1000  # by which a compressor makes a page smaller at most, about


def _read(path: Path, ids: str | None) -> pa.Table:
    """The table in a file, row labels of pandas with it."""
    with pq.ParquetFile(path, buffer_size=2**20) as file:
        metadata, names = file.metadata, file.schema_arrow.names
        groups = (metadata.row_group(g) for g in range(metadata.num_row_groups))
        # Of all columns; of lists what is in them.
        n_values = sum(g.column(c).num_values for g in groups for c in range(g.num_columns))
        check_fits(8.0 * n_values, f"the values in {path}")
        long = _long_strings(file)
        table = file.read(columns=[name for name in names if name not in long] if long else None)
        measured = _measured(file, long, path) if long else {}
    if long:
        columns = [measured[name] if name in long else table[name] for name in names]
        table = pa.table(columns, names=names, metadata=table.schema.metadata)
    pa.default_memory_pool().release_unused()
    return table


def _long_strings(file: pq.ParquetFile) -> list[str]:
    """Columns of strings that may not fit: what repeats is stored once, and compressed."""
    metadata, free = file.metadata, available_memory()
    fields = {
        f.name for f in file.schema_arrow if pt.is_string(f.type) or pt.is_large_string(f.type)
    }
    largest: dict[str, float] = {}
    for g in range(metadata.num_row_groups):
        group = metadata.row_group(g)
        for c in range(group.num_columns):
            column = group.column(c)
            if column.has_dictionary_page and column.path_in_schema in fields:
                words = column.data_page_offset - (column.dictionary_page_offset or 0)
                words = min(float(column.total_uncompressed_size), _RATIO * float(max(words, 0)))
                name = column.path_in_schema
                largest[name] = largest.get(name, 0.0) + column.num_values * words
    return [name for name, size in largest.items() if _COPIES * size > free / 4]


def _measured(file: pq.ParquetFile, names: list[str], path: Path) -> dict[str, pa.ChunkedArray]:
    """Columns read piece by piece, until it is plain that they do not fit."""
    parts, held, rows, free = [], 0.0, 0, available_memory()
    for part in file.iter_batches(_ROWS, columns=names):
        parts.append(part)
        held, rows = held + part.nbytes, rows + part.num_rows
        if 2 * _COPIES * held > free:
            full = _COPIES * held * file.metadata.num_rows / rows
            check_fits(max(full, free + 1), f"the text in {path}")
    table = pa.Table.from_batches(parts)
    return {name: table[name] for name in names}


def _give_back(path: Path, target: Path, change: Change) -> None:
    """Compressed, and in groups of rows, as the file is."""
    with pq.ParquetFile(path) as file:
        options: dict[str, Any] = {}
        if file.metadata.num_row_groups and file.metadata.num_columns:
            group = file.metadata.row_group(0)
            columns = [group.column(c) for c in range(file.metadata.num_columns)]
            codecs = {c.path_in_schema: c.compression.lower() for c in columns}
            codecs = {name: "none" if c == "uncompressed" else c for name, c in codecs.items()}
            options = {"compression": codecs, "row_group_size": max(1, group.num_rows)}
        pq.write_table(with_rows(file.read(), change), target, **options)


FORMAT = TableFormat(name="Parquet", suffixes=(".parquet",), read=_read, give_back=_give_back)
