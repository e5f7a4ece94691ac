"""Arrow tables given back: rows go and labels change, schema, metadata and types stay."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datassay.data.back.original import Change
from datassay.errors import DataError

_INDEX = "__index_level_0__"  # as pandas names labels of rows that have no name


def without_range(table: pa.Table) -> pa.Table:
    """The table with row labels of pandas that are a range other than 0, 1, ... as a column."""
    # Without some rows they are no range any more; pandas, too, then writes a column. A range from
    # 0 only counts the rows, and still does so.
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


def with_rows(table: pa.Table, change: Change) -> pa.Table:
    """The table without some rows, and with other values in one column of others."""
    place, values = change.place, table[change.column]
    donor, number, keep = change.donor, change.number, change.keep
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
                f"column {change.column!r} must hold its new targets as {values.type}; "
                f"{' '.join(str(error).split())}. Decide on numbers of that kind."
            ) from error
    table = table.set_column(place, table.schema.field(place), values)
    return table if keep.all() else without_range(table).filter(pa.array(keep))
