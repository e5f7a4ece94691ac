"""Tables: text, Parquet, Arrow and data frames with one row a sample and one column the target."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datassay.data.memory.frames import row_ids, row_labels
from datassay.data.samples import Column, are_several_labels
from datassay.data.source import Source, SourcePart
from datassay.data.strings import Texts, compact
from datassay.data.tables.columns import read_column
from datassay.data.tables.images import image_column, source_of_images
from datassay.data.tables.leaks import find_leaks
from datassay.data.tables.preparation import fit_columns, refuse
from datassay.data.tables.read import (
    NAMED,
    QUOTE,
    ROLES,
    Choices,
    ReadColumn,
    check_choices,
    rows_of,
    some,
)
from datassay.errors import UNWEIGHTED, DataError

WEIGHTS = {"sample_weight", "sample_weights", "weights", "case_weight", "survey_weight"}
NOTE, DECIMAL = b"note", b"decimal"  # of a table's metadata: what its reader has to say
WORDS = "its words: an embedding, or tf-idf weights"


def table_source(
    table: pa.Table, name: str, chosen: Choices, several: tuple[str, ...] = ()
) -> Source:
    """A source from a table in memory; `several` names all targets where the one here is one."""
    if (images := image_column(table)) is not None and images not in chosen.drop:
        keep = replace(chosen, keep=(*chosen.keep, images))
        plain_table = partial(table_source, name=name, chosen=keep, several=several)
        return source_of_images(table, images, plain_table)
    if targets := chosen.targets(table.column_names):
        return _with_targets(table, name, chosen, targets)
    # Rows whose target is missing are left out; the others keep their row numbers.
    # table: one row per sample; the row labels of pandas are its ids, unless others are named.
    note, is_open = (table.schema.metadata or {}).get(NOTE, b"").decode(), chosen.target is None
    table, chosen = with_roles(table, name, chosen)
    names, labels, target = table.column_names, row_labels(table) - set(chosen.roles), chosen.target
    assert target is not None
    used = [n for n in names if n not in labels]
    read = _read(table.select(used), name, chosen)
    last = f"No target was named: the last column, {target!r}, is predicted."
    positions, n_missing, warnings = None, 0, (last,) * is_open
    if (is_missing := read[target].is_missing) is not None:
        positions, n_missing = np.flatnonzero(~is_missing), int(is_missing.sum())
        missed = " or ".join(map(repr, several or (target,)))
        warnings += (
            f"{n_missing:,} of {len(is_missing):,} rows "
            f"{'has' if n_missing == 1 else 'have'} no target ({missed}) and "
            f"{'is' if n_missing == 1 else 'are'} left out: {rows_of(is_missing)}, counted from 0."
            + f" {QUOTE}."
            * pa.types.is_string(table[target].type),
        )
        again = _read(table.select(used).take(pa.array(positions)), name, chosen)
        # What numbered all rows numbers these, though with gaps.
        is_out = {n: c for n, c in read.items() if c.column.read_as == "left out"}
        read = again | is_out
    warnings += _told(read)
    weights = [n for n, c in read.items() if n.lower() in WEIGHTS and c.column.read_as == "number"]
    if weights and not {*weights} & {*chosen.keep}:
        warnings += (
            f"{weights[0]!r} is read as a feature. If it weighs samples, drop it: {UNWEIGHTED}",
        )
    kind, ranks = table[target].type, ()
    if pa.types.is_dictionary(kind) and kind.ordered and chosen.task != "regression":
        ranks = _ranks(table[target])
        warnings += (
            f"The order of the classes of {target!r} orders what is shown and no more: each miss "
            "counts as much. Where their ranks are numbers, task regression counts misses by "
            "distance.",
        )
    table = table.select([n for n in used if n not in chosen.roles and n not in chosen.drop])
    rows = table if positions is None else table.take(pa.array(positions))
    del table
    source = _source(read, rows, name, chosen, positions)
    known = {column.name: column for column in source.columns}
    known[target] = replace(known[target], missing=n_missing)
    known |= {n: Column(n, "left out", note="row labels of pandas") for n in labels}
    return replace(
        source,
        class_names=ranks,
        columns=tuple(known[n] for n in names),
        warnings=(note,) * bool(note) + warnings + source.warnings,
    )


def _ranks(target: pa.ChunkedArray) -> tuple[str, ...]:
    """The classes that an ordered column of strings holds, in its order; of numbers none."""
    held = {*target.unique().to_pylist()}
    names = target.unify_dictionaries().chunk(0).dictionary.to_pylist()
    return tuple(n for n in names if n in held) if isinstance(names[0], str) else ()


def _with_targets(table: pa.Table, name: str, chosen: Choices, targets: tuple[str, ...]) -> Source:
    """The same of several targets that are numbers: y is [n, k]."""
    table, read = read_targets(table, name, chosen, targets)
    chosen = replace(chosen, target=targets[0], task="regression")
    source = table_source(table.drop_columns(list(targets[1:])), name, chosen, targets)
    y = np.stack([plain(one) for one in read], 1)
    known = {c.name: c for c in (*source.columns, *(one.column for one in read[1:]))}
    if are_several_labels(y):
        known |= {n: replace(known[n], n_values=2) for n in targets}
    in_order = iter(targets)  # of y
    names = (next(in_order) if n in targets else n for n in table.column_names)
    columns = tuple(known[n] for n in names if n in known)
    return replace(source, train=replace(source.train, y=y), columns=columns)


def read_targets(
    table: pa.Table, name: str, chosen: Choices, targets: tuple[str, ...]
) -> tuple[pa.Table, list[ReadColumn]]:
    """Return the table, its first target missing where another is, and all targets elsewhere."""
    # Refused are targets that are no columns or no numbers.
    names = _names(table, name)
    as_targets = {n: replace(chosen, target=n, task="regression") for n in targets}
    for each in as_targets.values():
        check_names(names, name, each)

    def read(rows: pa.Table) -> list[ReadColumn]:
        columns = [read_column(rows[n], n, each) for n, each in as_targets.items()]
        refuse(columns, name)
        return columns

    columns = read(table)
    masks = [column.is_missing for column in columns if column.is_missing is not None]
    if masks:
        is_missing = np.logical_or.reduce(masks)
        if is_missing.all():
            raise DataError(f"a row must have all targets ({some(targets)}); none in {name} has.")
        first = pc.if_else(pa.array(is_missing), None, table[targets[0]])
        table = table.set_column(names.index(targets[0]), targets[0], first)
        columns = read(table.filter(pa.array(~is_missing)))
    if words := [column.column.name for column in columns if column.values is None]:
        raise DataError(
            f"several targets must be numbers; column {words[0]!r} holds words. Name one target."
        )
    return table, columns


def with_roles(table: pa.Table, name: str, chosen: Choices) -> tuple[pa.Table, Choices]:
    """The table with row labels of pandas as a column, and the choices with target and ids."""
    # ids are None where rows are numbered. Refused: a column not there or named twice, no feature,
    # no row.
    decimal = (table.schema.metadata or {}).get(DECIMAL, b"").decode()
    table, labelled = row_ids(table)
    others = chosen.asides
    if chosen.ids is None and labelled not in {chosen.target, *others}:
        chosen = replace(chosen, ids=labelled)
    names = _names(table, name)
    if not table.num_rows:
        raise DataError(
            f"{name} must hold one sample per row; it holds column names alone. Add its rows."
        )
    check_names(names, name, chosen)
    labels = row_labels(table) - set(chosen.roles)
    inputs = [n for n in names if n not in {chosen.ids, *others} and n not in labels]
    target = inputs[-1] if chosen.target is None and inputs else chosen.target
    _check_inputs([n for n in inputs if n != target], names, name, target, chosen)
    chosen = replace(chosen, target=target, decimal=decimal)
    check_choices(chosen, names, name)  # the last column may be one to drop
    return table, chosen


def _read(table: pa.Table, name: str, chosen: Choices) -> dict[str, ReadColumn]:
    read = {n: read_column(table[n], n, chosen) for n in table.column_names}
    # What a column leaves open, the others decide where they agree.
    marks = {column.decimal for column in read.values()} - {""}
    if not chosen.decimal and len(marks) == 1:
        chosen = replace(chosen, decimal=marks.pop())
        used = (n for n, c in read.items() if c.is_open and n != chosen.target)
        read |= {n: read_column(table[n], n, chosen) for n in used}
    refuse(list(read.values()), name)
    return read


def _told(read: dict[str, ReadColumn]) -> tuple[str, ...]:
    """Return a line on strings that are numbers or dates, nearly are, and on columns left out."""
    told: dict[str, list[str]] = {
        "Strings are read as numbers or dates": [], "Not so read": [], "Left out": []
    }  # fmt: skip
    read_lines, not_read, out = told.values()
    for name, column in read.items():
        lines = not_read if column.values is None else read_lines
        lines = out if column.column.read_as == "left out" else lines
        lines += [f"{name!r}: {column.told}"] * bool(column.told)
    parts = [f"{line}: {some(each, '. ')}." for line, each in told.items() if each]
    return (" ".join(parts),) * bool(parts)


def _source(
    read: dict[str, ReadColumn],
    rows: pa.Table,
    name: str,
    chosen: Choices,
    positions: np.ndarray | None,
) -> Source:
    """What was read as a source; `read` is emptied, so that columns and x are not both held."""
    pa.default_memory_pool().release_unused()
    columns = {role: getattr(chosen, role) for role in ROLES}
    given = {str(role): plain(read[c]) for role, c in columns.items() if c is not None}
    y = given.pop("target")
    used = [c for n, c in read.items() if n not in chosen.roles and c.column.read_as != "left out"]
    columns = {n: c.column for n, c in read.items()}
    if not used:
        out = [c for c in columns.values() if c.read_as == "left out"]
        reasons = "; ".join(f"{c.name}: {c.note}" for c in out[:NAMED])
        raise DataError(
            f"{name} must hold at least one feature; all of its columns were left out ({reasons}). "
            "Name those to use with keep."
        )
    leaks = find_leaks(used, y, chosen.task)
    telling = {name for leak in leaks for name in leak.names}
    read.clear()
    texts = [c for c in used if c.column.read_as == "text"]
    treated, x, fitted = [c for c in used if c.column.read_as != "text"], None, None
    del used
    if treated:
        x, fitted = fit_columns(treated)
        columns |= {column.name: column for column in fitted.columns}
    treated.clear()
    columns |= {c.column.name: replace(c.column, treatment=WORDS) for c in texts}
    pa.default_memory_pool().release_unused()
    x = np.zeros((len(y), 0)) if x is None else x
    return Source(
        Path(name).stem,
        SourcePart(
            x=x,
            y=y,
            texts=joined_texts([c.words for c in texts if c.words is not None]),
            rows=rows,
            **{"ids": positions} | given,
        ),
        feature_names=() if fitted is None else fitted.feature_names,
        columns=tuple(replace(c, tells_target=n in telling) for n, c in columns.items()),
        preparation=fitted,
        warnings=tuple(leak.sentence for leak in leaks),
    )


def joined_texts(words: list[pa.LargeStringArray]) -> Texts | None:
    """Return the texts of each row line by line; None of no columns."""
    if len(words) > 1:
        words = [pc.binary_join_element_wise(*words, pa.scalar("\n", pa.large_string()))]
    return Texts(words[0]) if words else None


def plain(column: ReadColumn) -> np.ndarray:
    """Its values, or its words as NumPy holds them."""
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
            f"column names must differ; in {name} these occur more than once: {some(repeated)}. "
            "Rename them."
        )
    return names


def check_names(names: list[str], name: str, chosen: Choices) -> None:
    """Refuse choices of columns that a table with these names has not."""
    for role in ROLES:
        column = getattr(chosen, role)
        is_name = isinstance(column, str)
        if column is not None and (not is_name or column not in names):
            raise DataError(
                f"{role} must name a column of {name}; got "
                f"{repr(column) if is_name else type(column).__name__}. Its columns are "
                f"{some(names)}."
            )
    check_choices(chosen, names, name)


def _check_inputs(
    inputs: list[str], names: list[str], name: str, target: str | None, chosen: Choices
) -> None:
    if "" in inputs:
        raise DataError(
            f"every feature column must have a name; one of {name} has none. If it numbers the "
            "rows, name it and pass that as ids, or write the table without it (index=False)."
        )
    if target is None or not inputs or target in {chosen.ids, *chosen.asides}:
        raise DataError(
            f"{name} must hold a target column and at least one feature besides ids, source, "
            f"trusted, groups and time; got {some(names) or 'no columns'}. Check the separator (a "
            "comma in .csv, a tab in .tsv) and the names given for target, ids and source."
        )
