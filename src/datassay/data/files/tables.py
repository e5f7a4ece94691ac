"""Tables: CSV, TSV, Parquet and data frames with one row a sample and one column the target."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datassay.data.files.columns import ReadColumn, Role, read_column
from datassay.data.files.delimited import read_delimited
from datassay.data.files.frames import row_ids, row_labels
from datassay.data.files.parquet import read_parquet
from datassay.data.samples import Column
from datassay.data.source import Part, Source, Task, check_fits, reading
from datassay.data.strings import Texts, compact
from datassay.errors import DataError

# Columns that an error names one by one.
SHOWN = 20


def read_table(
    path: Path,
    target: str | None = None,
    ids: str | None = None,
    source: str | None = None,
    task: Task | None = None,
) -> Source:
    """A source from a table.

    Args:
        path: .csv, .tsv or .parquet, the first two with a header line.
        target: the column to predict; None: the last one that is neither `ids` nor `source`.
        ids: the column that names the rows (strings if any has leading zeros); None: the row
            labels of pandas where the file has them, else they are numbered from 0.
        source: the column that names where each row came from, which is no feature; None: there
            is none.
        task: what to predict; None: the target says.

    Returns:
        The source; every other column is a feature.

    Raises:
        DataError: a column is not there, named twice, or no feature or row is left; columns cannot
            be used, each of them named; the first line of a .csv or .tsv is a sample, or its text
            no UTF-8.
    """
    with reading(path):
        is_parquet = path.suffix.lower() == ".parquet"
        # No name for the table here: what `table_source` has read of it can then be let go.
        return table_source(
            read_parquet(path) if is_parquet else read_delimited(path, ids),
            str(path),
            target,
            ids,
            source,
            task,
        )


def table_source(
    table: pa.Table,
    name: str,
    target: str | None,
    ids: str | None,
    source: str | None,
    task: Task | None = None,
) -> Source:
    """A source from a table in memory.

    Args:
        table: one row a sample; the row labels of pandas are its ids, unless others are named.
        name: the file's path, or what to call the table.
        target: as for `read_table`, and so for the rest.
        ids: the column that names the rows.
        source: the column that names where each row came from.
        task: what to predict.

    Returns:
        The source.

    Raises:
        DataError: as `read_table`.
    """
    table, labels = row_ids(table)
    if ids is None and labels not in {target, source}:
        ids = labels
    names = _names(table, name)
    if not table.num_rows:
        raise DataError(
            f"{name} must hold one sample a row; it holds column names alone. Add its rows."
        )
    _check_roles(names, name, target, ids, source)
    left_out = row_labels(table) - {target, ids, source}
    inputs = [n for n in names if n not in {ids, source} and n not in left_out]
    target = inputs[-1] if target is None and inputs else target
    _check_inputs([n for n in inputs if n != target], names, name, target, ids, source)
    roles: dict[str | None, Role] = {target: "target", ids: "ids", source: "source"}
    read = {
        column: read_column(values, column, roles.get(column, "feature"), task)
        for column, values in zip(names, table.itercolumns(), strict=True)
        if column not in left_out
    }
    _refuse(list(read.values()), name)
    rows = table.select([n for n in names if n not in roles and n not in left_out])
    del table
    pa.default_memory_pool().release_unused()
    columns = tuple(
        Column(n, "left out", note="row labels of pandas") if n in left_out else read[n].column
        for n in names
    )
    x, feature_names, texts = features([read.pop(n) for n in list(read) if n not in roles])
    pa.default_memory_pool().release_unused()
    train = Part(
        x,
        _plain(read[target]),  # pyright: ignore[reportArgumentType]
        None if ids is None else _plain(read[ids]),
        texts,
        None if source is None else _plain(read[source]),
        rows=rows,
    )
    return Source(Path(name).stem, train, feature_names=feature_names, columns=columns)


def features(columns: list[ReadColumn]) -> tuple[np.ndarray, tuple[str, ...], Texts | None]:
    """All feature columns side by side.

    Args:
        columns: as read, without a problem; taken out one by one, so that what was read and the
            numbers made of it are not held at once.

    Returns:
        x [n, m] float64: numbers as they are, booleans 0 or 1, for a vector its numbers, named
        "column 0", ..., and for a category one 0/1 column a value, named "column=value"; the m
        names; and the text columns joined by line breaks, [n], or None where there are none.
    """
    first = columns[0].values if columns[0].values is not None else columns[0].words
    n = len(first)  # pyright: ignore[reportArgumentType]
    width = sum(_width(c) for c in columns)
    check_fits(8.0 * n * width, f"{width:,} features of {n:,} samples")
    x, names, texts = np.empty((n, width)), [], []
    columns.reverse()
    while columns:
        column = columns.pop()
        name, start = column.column.name, len(names)
        if column.values is not None:
            vectors = column.values.reshape(n, -1)
            x[:, start : start + vectors.shape[1]] = vectors
            is_one = column.values.ndim == 1
            names += [name] if is_one else [f"{name} {i}" for i in range(vectors.shape[1])]
        elif column.column.read_as == "text":
            texts.append(column.words)
        else:
            categories = sorted(column.words.unique().to_pylist())  # pyright: ignore[reportOptionalMemberAccess]
            index = column.words.dictionary_encode()  # pyright: ignore[reportOptionalMemberAccess]
            place = np.array([categories.index(c) for c in index.dictionary.to_pylist()])
            x[:, start : start + len(categories)] = place[index.indices.to_numpy()][
                :, None
            ] == np.arange(len(categories))
            names += [f"{name}={category}" for category in categories]
    return x, tuple(names), _joined(texts)


def _width(column: ReadColumn) -> int:
    if column.values is None:
        return column.column.n_values or 0
    return 1 if column.values.ndim == 1 else column.values.shape[1]


def _joined(texts: list[pa.LargeStringArray]) -> Texts | None:
    if len(texts) > 1:
        line_break = pa.scalar("\n", pa.large_string())
        return Texts(pc.binary_join_element_wise(*texts, line_break))  # type: ignore[attr-defined]
    return Texts(texts[0]) if texts else None


def _plain(column: ReadColumn) -> np.ndarray:
    if column.values is not None:
        return column.values
    assert column.words is not None
    return compact(column.words)


def _names(table: pa.Table, name: str) -> list[str]:
    try:
        names = table.column_names
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name} must name its columns in UTF-8; one name is none. Rename it."
        ) from error
    if repeated := sorted(n for n, count in Counter(names).items() if count > 1):
        raise DataError(
            f"column names must differ; {_some(repeated)} occur more than once in {name}. "
            "Rename them."
        )
    return names


def _check_roles(
    names: list[str], name: str, target: str | None, ids: str | None, source: str | None
) -> None:
    for role, column in (("target", target), ("ids", ids), ("source", source)):
        is_name = isinstance(column, str)
        if column is not None and (not is_name or column not in names):
            raise DataError(
                f"{role} must name a column of {name}; got "
                f"{repr(column) if is_name else type(column).__name__}. Its columns are "
                f"{_some(names)}."
            )


def _check_inputs(
    inputs: list[str],
    names: list[str],
    name: str,
    target: str | None,
    ids: str | None,
    source: str | None,
) -> None:
    if "" in inputs:
        raise DataError(
            f"every feature column must have a name; one of {name} has none. If it numbers the "
            "rows, name it and pass that as ids, or write the table without it (index=False)."
        )
    if target is None or not inputs or target in {ids, source}:
        raise DataError(
            f"{name} must hold a target column and at least one feature beside ids and source; "
            f"got {_some(names) or 'no columns'}. Check the separator (a comma in .csv, a tab in "
            ".tsv) and the names given for target, ids and source."
        )


def _refuse(columns: list[ReadColumn], name: str) -> None:
    """All columns that cannot be used in one error."""
    bad = [c for c in columns if c.problem]
    if not bad:
        return
    problems = "; ".join(c.problem for c in bad[:SHOWN])
    if len(bad) > SHOWN:
        problems += (
            f"; and {len(bad) - SHOWN:,} more: {_some([c.column.name for c in bad[SHOWN:]])}"
        )
    remedies = ". ".join(dict.fromkeys(c.remedy for c in bad))
    counted = "" if len(bad) == 1 else f"{len(bad):,} columns of {name} cannot be used: "
    rows = " Rows count from 0." if "(row" in problems else ""
    raise DataError(f"{counted}{problems}. {remedies}.{rows}")


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + f", ... ({len(names):,} in all)" * (len(names) > SHOWN)
