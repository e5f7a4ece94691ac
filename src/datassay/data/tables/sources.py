"""Tables: text, Parquet, Arrow and data frames with one row a sample and one column the target."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Shaped

from datassay.data.memory.frames import row_labels
from datassay.data.samples import Column, are_several_labels
from datassay.data.source import Source, SourcePart
from datassay.data.strings import Texts, compact
from datassay.data.tables.columns import read_column
from datassay.data.tables.images import image_column, source_of_images, with_named_images
from datassay.data.tables.leaks import find_leaks, find_unused_leaks
from datassay.data.tables.preparation import fit_columns, refuse
from datassay.data.tables.read import NAMED, QUOTE, ROLES, Choices, ReadColumn, abridge, rows_of
from datassay.data.tables.roles import NOTE, check_names, column_names, resolve_roles
from datassay.data.targets import encode_targets
from datassay.errors import UNWEIGHTED, DataError
from datassay.optional import inflect
from datassay.results import result

WEIGHTS = {"sample_weight", "sample_weights", "weights", "case_weight", "survey_weight"}
WORDS = "its words: an embedding, or tf-idf weights"


def table_source(
    table: pa.Table, name: str, choices: Choices, all_targets: tuple[str, ...] = ()
) -> Source:
    """Return the samples of a table, one a row, without rows that lack a target.

    Ids are row numbers in the table, unless row labels of pandas or a column name the rows.
    `all_targets` names the targets in warnings where the one read here stands for several.
    """
    table = with_named_images(table, name, choices)
    images = image_column(table)
    if images is not None and images not in choices.drop:
        keep = replace(choices, keep=(*choices.keep, images))
        plain_table = partial(table_source, name=name, choices=keep, all_targets=all_targets)
        return source_of_images(table, images, plain_table)
    target_names = choices.targets(table.column_names)
    if target_names:
        return _read_several(table, name, choices, target_names)
    warnings = []
    note = (table.schema.metadata or {}).get(NOTE, b"").decode()
    if note:
        warnings.append(note)
    is_unnamed = choices.target is None
    table, choices = resolve_roles(table, name, choices)
    names = table.column_names
    target = choices.target
    assert target is not None
    if is_unnamed:
        warnings.append(f"No target was named: the column called {target!r} is predicted.")
    labels = row_labels(table) - set(choices.roles)
    columns = [n for n in names if n not in labels]
    read = _read_columns(table.select(columns), name, choices)
    positions = None
    n_missing = 0
    is_missing = read[target].is_missing
    if is_missing is not None:
        positions = np.flatnonzero(~is_missing)
        n_missing = int(is_missing.sum())
        warning = _warn_of_missing_targets(is_missing, all_targets or (target,))
        if pa.types.is_string(table[target].type):
            warning += f" {QUOTE}."
        warnings.append(warning)
        complete = _read_columns(table.select(columns).take(pa.array(positions)), name, choices)
        # What numbered all rows numbers these, though with gaps.
        left_out = {n: c.take(positions) for n, c in read.items() if c.column.read_as == "left out"}
        read = complete | left_out
    warnings += _describe_reading(read)
    weights = [n for n, c in read.items() if n.lower() in WEIGHTS and c.column.read_as == "number"]
    if weights and not {*weights} & {*choices.keep}:
        warnings.append(
            f"{weights[0]!r} is read as a feature. If it weighs samples, drop it: {UNWEIGHTED}"
        )
    kind = table[target].type
    ranks = ()
    if pa.types.is_dictionary(kind) and kind.ordered and choices.task != "regression":
        ranks = _list_ordered_classes(table[target])
        warnings.append(
            f"The order of the classes of {target!r} orders what is shown and no more: each miss "
            "counts as much. Where their ranks are numbers, task regression counts misses by "
            "distance."
        )
    table = table.select([n for n in columns if n not in choices.roles and n not in choices.drop])
    rows = table
    if positions is not None:
        rows = table.take(pa.array(positions))
    del table
    source = _make_source(read, rows, name, choices, positions)
    column_of = {column.name: column for column in source.columns}
    column_of[target] = replace(column_of[target], missing=n_missing)
    column_of |= {n: Column(n, "left out", note="row labels of pandas") for n in labels}
    return replace(
        source,
        class_names=ranks,
        columns=tuple(column_of[n] for n in names),
        warnings=(*warnings, *source.warnings),
    )


def _warn_of_missing_targets(is_missing: np.ndarray, names: tuple[str, ...]) -> str:
    """Return a warning that rows without a target are left out; is_missing: [n] bool."""
    n_missing = int(is_missing.sum())
    verbs = inflect(n_missing, "has {} and is", "have {} and are")
    fault = verbs.format(f"no target ({' or '.join(map(repr, names))})")
    return (
        f"{n_missing:,} of {len(is_missing):,} rows {fault} left out: {rows_of(is_missing)}, "
        "counted from 0."
    )


@result
class Glance:
    """What a table holds, read before all else.

    Attributes:
        n_rows: those whose target is missing, too.
        columns: in the table's order.
        y: targets that are there: class indices, or numbers.
        class_names: of the target; () where it is a quantity.
    """

    n_rows: int
    columns: tuple[Column, ...]
    y: Shaped[np.ndarray, " n"]
    class_names: tuple[str, ...]


def glance_at(table: pa.Table, name: str, choices: Choices) -> Glance:
    """Return a table's columns as they would be read; raise as `table_source` does."""
    table, choices = resolve_roles(table, name, choices)
    labels = row_labels(table) - set(choices.roles)
    read = _read_columns(table.drop_columns([*labels]), name, choices)
    assert choices.target is not None
    target = read[choices.target]
    if target.is_missing is not None:
        values = table[choices.target].filter(pa.array(~target.is_missing))
        target = read_column(values, choices.target, choices)
        refuse([target], name)
    y, _, class_names = encode_targets(plain_values(target), None, (), choices.task)
    return Glance(table.num_rows, tuple(c.column for c in read.values()), y, class_names)


def _list_ordered_classes(target: pa.ChunkedArray) -> tuple[str, ...]:
    """Return class names in the order of an ordered categorical target; () for numbers."""
    values = {*target.unique().to_pylist()}
    names = target.unify_dictionaries().chunk(0).dictionary.to_pylist()
    if not isinstance(names[0], str):
        return ()
    return tuple(n for n in names if n in values)


def _read_several(table: pa.Table, name: str, choices: Choices, targets: tuple[str, ...]) -> Source:
    """Return the source of a table with several numeric targets: y is [n, k]."""
    table, read = read_targets(table, name, choices, targets)
    choices = replace(choices, target=targets[0], task="regression")
    source = table_source(table.drop_columns(list(targets[1:])), name, choices, targets)
    y = np.stack([plain_values(target) for target in read], 1)
    column_of = {c.name: c for c in (*source.columns, *(target.column for target in read[1:]))}
    if are_several_labels(y):
        column_of |= {n: replace(column_of[n], n_values=2) for n in targets}
    in_order_of_y = iter(targets)
    names = (next(in_order_of_y) if n in targets else n for n in table.column_names)
    columns = tuple(column_of[n] for n in names if n in column_of)
    return replace(source, train=replace(source.train, y=y), columns=columns)


def read_targets(
    table: pa.Table, name: str, choices: Choices, targets: tuple[str, ...]
) -> tuple[pa.Table, list[ReadColumn]]:
    """Return the table without rows that lack a target, and the k targets of all others."""
    # Refused are targets that are no columns or no numbers.
    names = column_names(table, name)
    choices_by_target = {n: replace(choices, target=n, task="regression") for n in targets}
    for choices_of_one in choices_by_target.values():
        check_names(names, name, choices_of_one)

    def read(rows: pa.Table) -> list[ReadColumn]:
        columns = [read_column(rows[n], n, c) for n, c in choices_by_target.items()]
        refuse(columns, name)
        return columns

    columns = read(table)
    masks = [column.is_missing for column in columns if column.is_missing is not None]
    if masks:
        is_missing = np.logical_or.reduce(masks)
        if is_missing.all():
            text = abridge(targets)
            raise DataError(f"a row must have all targets ({text}); none in {name} has.")
        masked = pc.if_else(pa.array(is_missing), None, table[targets[0]])
        table = table.set_column(names.index(targets[0]), targets[0], masked)
        columns = read(table.filter(pa.array(~is_missing)))
    of_words = [column.column.name for column in columns if column.values is None]
    if of_words:
        raise DataError(
            f"several targets must be numbers; column {of_words[0]!r} holds words. Write 1 for yes "
            "and 0 for no, or name one target."
        )
    return table, columns


def _read_columns(table: pa.Table, name: str, choices: Choices) -> dict[str, ReadColumn]:
    """Return name → column read; raise one error if some cannot be used."""
    read = {n: read_column(table[n], n, choices) for n in table.column_names}
    # A decimal mark that a column leaves open is that of the others, if they agree.
    marks = {column.decimal for column in read.values()} - {""}
    if not choices.decimal and len(marks) == 1:
        choices = replace(choices, decimal=marks.pop())
        ambiguous = (n for n, c in read.items() if c.is_ambiguous and n != choices.target)
        read |= {n: read_column(table[n], n, choices) for n in ambiguous}
    refuse(list(read.values()), name)
    return read


def _describe_reading(read: dict[str, ReadColumn]) -> tuple[str, ...]:
    """Return lines: strings read as numbers, codes read as missing, columns left out."""
    as_values = "Strings are read as numbers or dates"
    as_missing = "Read as missing, as it lies far from the other numbers (not so with keep)"
    heads = (as_values, as_missing, "Not so read", "Left out")
    texts: dict[str, list[str]] = {head: [] for head in heads}
    for name, column in read.items():
        head = as_values
        if column.values is None:
            head = "Not so read"
        if column.column.missing_code is not None:
            head = as_missing
        if column.column.read_as == "left out":
            head = "Left out"
        if column.warning:
            texts[head].append(f"{name!r}: {column.warning}")
    parts = [f"{head}: {abridge(warnings, '. ')}." for head, warnings in texts.items() if warnings]
    if not parts:
        return ()
    return (" ".join(parts),)


def _make_source(
    read: dict[str, ReadColumn],
    rows: pa.Table,
    name: str,
    choices: Choices,
    positions: np.ndarray | None,
) -> Source:
    """Return the source made of the columns read; `read` is emptied to free memory."""
    # rows: of the user's own columns. positions: numbers of the rows, where some were left out.
    pa.default_memory_pool().release_unused()
    names = {role: getattr(choices, role) for role in ROLES}
    arrays = {str(role): plain_values(read[n]) for role, n in names.items() if n is not None}
    y = arrays.pop("target")
    roles = choices.roles
    features = [c for n, c in read.items() if n not in roles and c.column.read_as != "left out"]
    columns = {n: c.column for n, c in read.items()}
    if not features:
        left_out = [c for c in columns.values() if c.read_as == "left out"]
        reasons = "; ".join(f"{c.name}: {c.note}" for c in left_out[:NAMED])
        raise DataError(
            f"{name} must hold at least one feature; all of its columns were left out ({reasons}). "
            "Name those to use with keep."
        )
    leaks = find_leaks(features, y, choices.task)
    leaking = {n for leak in leaks for n in leak.names}
    unused = [c for n, c in read.items() if n not in roles and c.column.read_as == "left out"]
    if choices.finds_ids and choices.ids:
        column = replace(read[choices.ids].column, note="its values name the rows")
        unused += [replace(read[choices.ids], column=column)]
    leaks += find_unused_leaks(unused, y, choices.task)
    read.clear()
    texts = [c for c in features if c.column.read_as == "text"]
    treated = [c for c in features if c.column.read_as != "text"]
    x = None
    fitted = None
    del features
    if treated:
        x, fitted = fit_columns(treated)
        columns |= {column.name: column for column in fitted.columns}
    treated.clear()
    columns |= {c.column.name: replace(c.column, treatment=WORDS) for c in texts}
    pa.default_memory_pool().release_unused()
    if x is None:
        x = np.zeros((len(y), 0))
    return Source(
        Path(name).stem,
        SourcePart(
            x=x,
            y=y,
            texts=join_texts([c.words for c in texts if c.words is not None]),
            rows=rows,
            **{"ids": positions} | arrays,
        ),
        feature_names=() if fitted is None else fitted.feature_names,
        columns=tuple(replace(c, tells_target=n in leaking) for n, c in columns.items()),
        preparation=fitted,
        warnings=tuple(leak.sentence for leak in leaks),
    )


def join_texts(words: list[pa.LargeStringArray]) -> Texts | None:
    """Return each row's texts joined by line breaks, [n]; None without columns."""
    if len(words) > 1:
        words = [pc.binary_join_element_wise(*words, pa.scalar("\n", pa.large_string()))]
    if not words:
        return None
    return Texts(words[0])


def plain_values(column: ReadColumn) -> np.ndarray:
    """Return a column's values, or its strings, as a NumPy array [n]."""
    if column.values is not None:
        return column.values
    assert column.words is not None
    return compact(column.words)
