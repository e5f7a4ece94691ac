"""Parquet files as Arrow tables, refused before they are read where they would not fit."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from datassay.data.source import check_fits

# Repeated strings are stored once. A column of strings that could be longer than this once they
# stand for themselves is read with each kept once, and measured.
_UNMEASURED = 2**28


def read_parquet(path: Path) -> pa.Table:
    """The table in a file.

    Args:
        path: .parquet.

    Returns:
        The table, row labels of pandas with it.

    Raises:
        DataError: it would not fit into memory.
    """
    with pq.ParquetFile(path) as file:
        metadata = file.metadata
        check_fits(8.0 * metadata.num_rows * metadata.num_columns, f"the values in {path}")
        long = _long_strings(metadata) if metadata.num_rows else []
    with pq.ParquetFile(path, read_dictionary=long or None) as file:
        table = file.read()
    for name in long:
        check_fits(_full_size(table[name]), f"column {name!r} of {path}")
    return table


def _long_strings(metadata: pq.FileMetaData) -> list[str]:
    """Columns of strings that may be far longer than the file says."""
    largest: dict[str, float] = {}
    for g in range(metadata.num_row_groups):
        group = metadata.row_group(g)
        for c in range(group.num_columns):
            column = group.column(c)
            if column.physical_type == "BYTE_ARRAY" and column.has_dictionary_page:
                size = float(column.num_values) * column.total_uncompressed_size
                name = column.path_in_schema
                largest[name] = largest.get(name, 0.0) + size
    return [name for name, size in largest.items() if size > _UNMEASURED]


def _full_size(column: pa.ChunkedArray) -> float:
    """Bytes of a column of strings once each stands for itself."""
    total = 0.0
    for chunk in column.chunks:
        if not pa.types.is_dictionary(chunk.type):
            return column.nbytes
        counts = chunk.indices.value_counts()
        longest = chunk.dictionary.nbytes
        sizes = [
            len(chunk.dictionary[row["values"]].as_buffer() or b"") * row["counts"]
            for row in counts.to_pylist()
            if row["values"] is not None
        ]
        total += min(float(sum(sizes)), float(longest) * len(chunk))
    return total
