"""Tables: CSV, TSV and Parquet files with one row a sample and one column the target."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet
from pyarrow.interchange import from_dataframe

from datassay.data.files.columns import features, plain
from datassay.data.source import Part, Source, reading
from datassay.errors import DataError

# Where pandas keeps its row index in Parquet; it would otherwise be taken for the target.
_INTEGER = re.compile(r"0|-?[1-9]\d{0,17}")
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


def read_table(
    path: Path, target: str | None = None, ids: str | None = None, source: str | None = None
) -> Source:
    """A source from a table.

    Args:
        path: .csv, .tsv or .parquet, the first two with a header line.
        target: the column to predict; None: the last one that is neither `ids` nor `source`.
        ids: the column that names the rows (strings if any has leading zeros); None: they are
            numbered from 0.
        source: the column that names where each row came from, which is no feature; None: there
            is none.

    Returns:
        The source; every other column is a feature.

    Raises:
        DataError: a column is not there, named twice, or no feature or row is left; the first line
            of a .csv or .tsv is a sample, or its text no UTF-8.
    """
    with reading(path):
        table = _parquet(path) if path.suffix.lower() == ".parquet" else _csv(path, ids)
    return table_source(table, str(path), target, ids, source)


def frame_table(data: object) -> pa.Table | None:
    """A data frame of any library as an Arrow table, without its row labels.

    Args:
        data: maybe a data frame, by the Arrow or the data frame interchange protocol.

    Returns:
        The table; None where it is no data frame.
    """
    if isinstance(data, pa.Table):
        return data
    if not hasattr(data, "columns") or not hasattr(data, "__dataframe__"):
        return None
    table = pa.table(data) if hasattr(data, "__arrow_c_stream__") else from_dataframe(data)
    return _without_row_labels(table)


def table_source(
    table: pa.Table, name: str, target: str | None, ids: str | None, source: str | None
) -> Source:
    """A source from a table in memory.

    Args:
        table: one row a sample.
        name: the file's path, or what to call the table.
        target: as for `read_table`, and so for the rest.
        ids: the column that names the rows.
        source: the column that names where each row came from.

    Returns:
        The source.

    Raises:
        DataError: as `read_table`.
    """
    names = table.column_names
    if not table.num_rows:
        raise DataError(
            f"{name} must hold one sample a row; it holds column names alone. Add its rows."
        )
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise DataError(
            f"column names must differ; {', '.join(repeated)} occur more than once in {name}. "
            "Rename them."
        )
    for role, column in (("target", target), ("ids", ids), ("source", source)):
        if column is not None and column not in names:
            raise DataError(
                f"{role} must name a column of {name}; got {column!r}. Its columns are "
                f"{', '.join(names)}."
            )
    inputs = [name for name in names if name not in {ids, source}]
    target = inputs[-1] if target is None and inputs else target
    inputs = [name for name in inputs if name != target]
    if "" in inputs:
        raise DataError(
            f"every feature column must have a name; one of {name} has none. If it numbers the "
            "rows, name it and pass that as ids, or write the table without it (index=False)."
        )
    if target is None or not inputs or target in {ids, source}:
        raise DataError(
            f"{name} must hold a target column and at least one feature beside ids and source; "
            "got "
            f"{', '.join(names) or 'no columns'}. Check the separator (a comma in .csv, a tab in "
            ".tsv) and the names given for target, ids and source."
        )
    x, feature_names, texts = features({column: plain(table[column], column) for column in inputs})
    row_ids = None if ids is None else plain(table[ids], ids)
    origins = None if source is None else plain(table[source], source)
    train = Part(x, plain(table[target], target), row_ids, texts, origins)
    return Source(Path(name).stem, train, feature_names=feature_names)


def _parquet(path: Path) -> pa.Table:
    with parquet.ParquetFile(path) as file:
        table = file.read()
    return _without_row_labels(table)


def _without_row_labels(table: pa.Table) -> pa.Table:
    return table.drop_columns([c for c in table.column_names if _PANDAS_INDEX.fullmatch(c)])


def _csv(path: Path, ids: str | None) -> pa.Table:
    table = _utf8_csv(path, ids)
    if table.num_rows and _header_is_data(table):
        raise DataError(
            f"{path} must start with a line of column names; its first line looks like a sample: "
            f"{', '.join(table.column_names[:5])}. Add a header line."
        )
    if ids in table.column_names and all(
        map(_INTEGER.fullmatch, table[ids].drop_null().to_pylist())
    ):
        place = table.column_names.index(ids)
        return table.set_column(place, ids, table[ids].cast(pa.int64()))
    return table


def _utf8_csv(path: Path, ids: str | None) -> pa.Table:
    try:
        table = csv.read_csv(
            path,
            parse_options=csv.ParseOptions(
                delimiter="\t" if path.suffix.lower() == ".tsv" else ",", newlines_in_values=True
            ),
            convert_options=csv.ConvertOptions(
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                # Read as a number, "00123" would no longer join to the user's table.
                column_types={} if ids is None else {ids: pa.string()},
            ),
        )
        columns = zip(table.column_names, table.schema.types, strict=True)
        is_text = not any(pa.types.is_binary(kind) for _, kind in columns)
    except ValueError as error:  # names are decoded by Python when they are read, ids by Arrow
        if not isinstance(error, UnicodeDecodeError) and "UTF8" not in str(error):
            raise
        is_text = False
    if not is_text:
        raise DataError(
            f"{path} must be UTF-8 text; it holds bytes that are none, as Latin-1 or Excel's plain "
            "CSV does. Save it as UTF-8."
        )
    return table


def _header_is_data(table: pa.Table) -> bool:
    # pandas names nameless columns 0, 1, ...; such a header is one.
    names = table.column_names
    numbers = [name for name in names if _NUMBER.fullmatch(name)]
    if len(numbers) > 1 and numbers == [str(i) for i in range(len(numbers))]:
        return False
    values = table.column(table.num_columns - 1).cast(pa.string()).to_pylist()
    return len(numbers) == len(names) or names[-1] in values
