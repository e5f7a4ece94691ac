"""Data frames of pandas, polars and Arrow as Arrow tables."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow.interchange import from_dataframe

from datassay.errors import DataError

# Where pandas keeps its nameless row labels.
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


def frame_table(data: Any) -> pa.Table | None:
    """A data frame of any library as an Arrow table.

    Args:
        data: maybe a data frame, by the Arrow or the data frame interchange protocol.

    Returns:
        The table; None where it is no data frame.

    Raises:
        DataError: a column that is neither numbers, booleans nor strings, nor a mix of them.
    """
    if isinstance(data, pa.Table):
        return data
    if not hasattr(data, "columns"):
        return None
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.table(data)
        return from_dataframe(data) if hasattr(data, "__dataframe__") else None
    except (pa.ArrowException, ValueError, TypeError, NotImplementedError, RuntimeError) as error:
        if not hasattr(data, "__getitem__"):
            raise DataError(f"the data frame cannot be read: {_line(error)}.") from error
    return _column_by_column(data)


def row_labels(table: pa.Table) -> set[str]:
    """The columns that hold pandas' row labels, which pandas writes behind the others.

    Args:
        table: of a file or a frame.

    Returns:
        Their names.
    """
    labels = {name for name in table.column_names if _PANDAS_INDEX.fullmatch(name)}
    try:
        indices = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}"))["index_columns"]
        return labels | ({i for i in indices if isinstance(i, str)} & set(table.column_names))
    except (ValueError, LookupError, TypeError):
        return labels


def _column_by_column(data: Any) -> pa.Table:
    """A frame with columns of mixed Python objects, each value of those as its text."""
    names = [str(name) for name in data.columns]
    columns = [_column(data[name], str(name)) for name in data.columns]
    try:
        return pa.table(columns, names=names)
    except ValueError as error:
        raise DataError(f"the data frame cannot be read: {_line(error)}.") from error


def _column(values: Any, name: str) -> pa.Array:
    objects = np.asarray(values, dtype=object)
    if objects.ndim != 1:
        raise DataError(f"column names must differ; {name!r} occurs more than once. Rename it.")
    objects = [None if _is_missing(value) else value for value in objects.tolist()]
    try:
        return pa.array(objects)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        pass
    plain = bool | int | float | str | np.number | np.bool_
    if kinds := sorted({type(v).__name__ for v in objects if not isinstance(v, plain | None)}):
        raise DataError(
            f"column {name!r} must hold numbers, booleans or strings; got {', '.join(kinds)}. "
            "Convert it or drop it."
        )
    try:
        return pa.array([None if value is None else str(value) for value in objects])
    except ValueError as error:
        raise DataError(
            f"column {name!r} must be text that UTF-8 can hold; {_line(error)}. Correct it."
        ) from error


def _is_missing(value: object) -> bool:
    is_nan = isinstance(value, float | np.floating) and bool(np.isnan(value))
    return value is None or is_nan or type(value).__name__ in {"NAType", "NaTType"}  # of pandas


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200].rstrip(".")
