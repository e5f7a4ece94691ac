"""Data frames of pandas, polars and Arrow as Arrow tables; the labels of their rows as ids."""

import json
import re
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyarrow.interchange import from_dataframe

from datassay.errors import DataError
from datassay.optional import map_optional

# Where pandas keeps its nameless row labels.
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
INDEX = "index"  # how a column of nameless row labels is called


def frame_table(data: Any) -> pa.Table | None:
    """Return a data frame of any library as an Arrow table; None for other values."""
    # The index of pandas becomes a column, marked as `row_labels` finds it, unless it only counts
    # the rows from 0. Labels of a Dataset of Hugging Face's datasets are codes; they get their
    # names.
    if hasattr(data, "with_format") and hasattr(data, "features"):
        features = data.features
        data = data.with_format("arrow")[:]
        if not isinstance(data, pa.Table):
            raise DataError(
                "data must be there as a whole; this Dataset streams its rows. Load it with "
                "streaming=False."
            )
        for position, name in enumerate(data.column_names):
            names = getattr(features[name], "names", None)
            if isinstance(names, list):
                data = data.set_column(position, name, named_labels(data[name], names))
    if isinstance(data, pa.Table):
        return without_views(data)
    if not hasattr(data, "columns"):
        return None
    table = _convert_frame(data)
    if table is None:
        return None
    table = without_views(table)
    index = getattr(data, "index", None)
    counts_rows = [getattr(index, name, None) for name in ("start", "step")] == [0, 1]
    is_of_pandas = hasattr(index, "nlevels")
    if is_of_pandas and not counts_rows:
        return _append_index(table, index)
    return table


def _convert_frame(data: Any) -> pa.Table | None:
    """Return a frame as an Arrow table, column by column if need be; None if it is none."""
    is_pandas = any(c.__module__.partition(".")[0] == "pandas" for c in type(data).__mro__)
    if is_pandas:
        data = _write_as_words(data)
    try:
        if is_pandas:
            return pa.Table.from_pandas(data, preserve_index=False)
        if hasattr(data, "__arrow_c_stream__"):
            return pa.table(data)
        if not hasattr(data, "__dataframe__"):
            return None
        return from_dataframe(data)
    except (pa.ArrowException, ValueError, TypeError, OverflowError, RuntimeError) as error:
        if not hasattr(data, "__getitem__"):
            raise DataError(f"the data frame cannot be read: {_line(error)}.") from error
    columns = [_convert_column(data[name], str(name)) for name in data.columns]
    try:
        return pa.table(columns, names=[str(name) for name in data.columns])
    except ValueError as error:
        raise DataError(f"the data frame cannot be read: {_line(error)}.") from error


def _write_as_words(data: Any) -> Any:
    """Return a pandas frame with periods and intervals as strings, which files can hold."""
    for j, dtype in enumerate(data.dtypes):
        value_dtype = getattr(getattr(dtype, "categories", None), "dtype", dtype)
        if str(value_dtype).startswith(("period", "interval")):
            column = data.iloc[:, j]
            data = data.copy(deep=False)
            if value_dtype is dtype:  # no categories
                words = column.astype("string")
            else:
                words = column.cat.rename_categories(str)
            data.isetitem(j, words)
    return data


def _convert_column(values: Any, name: str) -> Any:
    """Return a column as an Arrow array; values of mixed types as their text."""
    with suppress(pa.ArrowException, ValueError, TypeError, OverflowError):
        if hasattr(values, "__arrow_c_stream__"):
            return pa.chunked_array(values)
    is_wide = str(getattr(values, "dtype", "")) in {"Int128", "UInt128"}  # of polars
    return plain_column(values.to_list() if is_wide else values, name)


def named_labels(codes: pa.ChunkedArray, names: list[Any]) -> pa.LargeStringArray:
    """Return the class names of integer labels; null for −1, which means no label."""
    codes = codes.cast(pa.int64())
    present = pc.if_else(pc.less(codes, 0), None, codes)
    if (pc.max(present).as_py() or 0) >= len(names):
        raise ValueError(f"there are labels beyond their {len(names)} names")
    words = pa.array([str(name) for name in names], pa.large_string())
    return words.take(present.combine_chunks())


def without_views(table: pa.Table) -> pa.Table:
    """Return the table with Arrow's string_view and binary_view columns as plain ones."""
    stored_types = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
    if "_view" not in str(table.schema.types):
        return table
    fields = []
    for field in table.schema:
        kind = field.type
        if pt.is_dictionary(kind) and str(kind.value_type) in stored_types:
            kind = pa.dictionary(kind.index_type, stored_types[str(kind.value_type)], kind.ordered)
        fields.append(field.with_type(stored_types.get(str(kind), kind)))
    try:
        return table.cast(pa.schema(fields, table.schema.metadata))
    except pa.ArrowNotImplementedError as error:
        raise DataError(
            f"pyarrow {pa.__version__} cannot read views of strings, as polars writes them. "
            "Update pyarrow."
        ) from error


def _append_index(table: pa.Table, index: Any) -> pa.Table:
    """Return the table with its row labels as one more column: whole numbers, else words."""
    name = None
    if index.nlevels == 1:
        name = index.name
    if not isinstance(name, str) or not name or name in table.column_names:  # nameless, as pandas
        name = "__index_level_0__"
        if INDEX not in table.column_names:
            name = INDEX
    labels = list(index)
    kind = pa.int64()
    if index.nlevels > 1:
        labels = [", ".join(map(str, levels)) for levels in index]
    if not all(isinstance(v, int | np.integer) and not isinstance(v, bool) for v in labels):
        labels = [str(label) for label in labels]
        kind = pa.large_string()
    elif max(map(int, labels), default=0) >= 2**63:
        kind = pa.uint64()
    return _mark_index(table.append_column(name, pa.array(labels, kind)), name)


def _mark_index(table: pa.Table, name: str) -> pa.Table:
    """Return the table whose column of row labels is marked as pandas marks it."""
    marks = {b"pandas": json.dumps({"index_columns": [name]}).encode()}
    return table.replace_schema_metadata({**(table.schema.metadata or {}), **marks})


def row_ids(table: pa.Table) -> tuple[pa.Table, str | None]:
    """Return the table and the name of the row-label column that can be ids, or None."""
    # None where rows are to be numbered: there are no labels, or they are no single column of
    # distinct whole numbers or strings.
    labels, name = described_range(table) or (range(0), None)
    if (labels.start, labels.step) != (0, 1):
        if name is None or name in table.column_names:
            name = INDEX
        if name not in table.column_names:
            table = _mark_index(table.append_column(name, pa.array(labels, pa.int64())), name)
    names = sorted(row_labels(table))
    if not names and table.column_names.count("") == 1 and INDEX not in table.column_names:
        # Where `to_csv` writes the labels of rows.
        renamed = table.rename_columns([n or INDEX for n in table.column_names])
        renamed, name = row_ids(_mark_index(renamed, INDEX))
        if name:
            return renamed, name
        return table, None
    kinds = (pt.is_integer, pt.is_string, pt.is_large_string)
    if len(names) != 1 or not any(is_kind(table[names[0]].type) for is_kind in kinds):
        return table, None
    column = table[names[0]]
    if column.null_count or len(pc.unique(column)) < len(column):
        return table, None
    return table, names[0]


def check_index(table: pa.Table) -> None:
    """Raise if a frame's row labels repeat, since results could not be joined by them."""
    for name in row_labels(table):
        counts = pc.value_counts(table[name]).to_pylist()
        commonest = max(counts, key=lambda entry: entry["counts"], default={"counts": 0})
        if commonest["counts"] > 1:
            raise DataError(
                "the index of a frame names its rows, so it must not repeat; "
                f"{commonest['values']!r} occurs {commonest['counts']} times. Pass "
                "frame.reset_index(drop=True), or name a column as ids."
            )


def described_range(table: pa.Table) -> tuple[range, str | None] | None:
    """Return row labels that pandas stored as a range, and their name; None without one."""
    ranges = [i for i in _read_index(table) if isinstance(i, dict) and i.get("kind") == "range"]
    if len(ranges) != 1:
        return None
    ends = [ranges[0].get(key) for key in ("start", "stop", "step")]
    numbers = [end for end in ends if isinstance(end, int) and abs(end) < 2**62]
    if len(numbers) != 3 or numbers[2] == 0 or len(range(*numbers)) != table.num_rows:
        return None
    name = ranges[0].get("name")
    return range(*numbers), name if isinstance(name, str) else None


def row_labels(table: pa.Table) -> set[str]:
    """Return the names of the columns that hold pandas' row labels (its index)."""
    labels = {name for name in table.column_names if _PANDAS_INDEX.fullmatch(name)}
    marked = {i for i in _read_index(table) if isinstance(i, str)}
    return labels | (marked & set(table.column_names))


def _read_index(table: pa.Table) -> list[Any]:
    """Return the `index_columns` of a table's pandas metadata; [] if it has none."""
    try:
        indices = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}"))["index_columns"]
    except (ValueError, LookupError, TypeError):
        return []
    if not isinstance(indices, list):
        return []
    return indices


def plain_column(values: Any, name: str) -> pa.Array:
    """Return values as an Arrow array, null where missing; mixed types as their text."""
    objects = np.asarray(values, dtype=object)
    if objects.ndim != 1:
        raise DataError(f"column names must differ; {name!r} occurs more than once. Rename it.")
    objects = [None if _is_missing(value) else value for value in objects.tolist()]
    try:
        return pa.array(objects)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        pass
    scalars = bool | int | float | str | np.number | np.bool_ | None
    other_types = sorted({type(v).__name__ for v in objects if not isinstance(v, scalars)})
    if other_types:  # a column of structs, which is left out later; it tells the types
        return pa.array([{", ".join(other_types): True}] * len(objects))
    try:
        return pa.array([map_optional(str, value) for value in objects])
    except ValueError as error:
        raise DataError(
            f"column {name!r} must be text that UTF-8 can hold; {_line(error)}. Correct it."
        ) from error


def _is_missing(value: object) -> bool:
    """Return whether a Python object stands for a missing value."""
    is_nan = isinstance(value, float | np.floating) and bool(np.isnan(value))
    return value is None or is_nan or type(value).__name__ in {"NAType", "NaTType"}  # of pandas


def _line(error: Exception) -> str:
    """Return an error's message in one line, without its full stop."""
    return " ".join(str(error).split())[:200].rstrip(".")
