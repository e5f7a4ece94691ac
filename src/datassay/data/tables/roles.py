"""Which column of a table is the target, and which names the rows: as asked, or by their names."""

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from datassay.data.memory.frames import row_ids, row_labels
from datassay.data.tables.columns import read_column
from datassay.data.tables.numeric import is_id_name
from datassay.data.tables.read import ROLES, Choices, abridge, check_choices
from datassay.errors import DataError
from datassay.optional import take_first

TARGETS = ("target", "label", "y", "class")  # names of the column that is predicted unasked
NOTE, DECIMAL = b"note", b"decimal"  # of a table's metadata: what its reader has to say


def resolve_roles(table: pa.Table, name: str, choices: Choices) -> tuple[pa.Table, Choices]:
    """Return the table, and choices with the names of its target and id columns found."""
    # ids are None where rows are numbered. Refused: a column not there or named twice, no target,
    # no feature, no row.
    decimal = (table.schema.metadata or {}).get(DECIMAL, b"").decode()
    table, label_column = row_ids(table)
    asides = choices.asides
    if choices.ids is None and label_column not in {choices.target, *asides}:
        choices = replace(choices, ids=label_column)
    names = column_names(table, name)
    if not table.num_rows:
        raise DataError(
            f"{name} must hold one sample per row; it holds column names alone. Add its rows."
        )
    check_names(names, name, choices)
    labels = row_labels(table) - set(choices.roles)
    inputs = [n for n in names if n not in {choices.ids, *asides} and n not in labels]
    target = choices.target
    if target is None and inputs:
        target = _find_target(inputs, name)
    _check_inputs([n for n in inputs if n != target], names, name, target, choices)
    choices = replace(choices, target=target, decimal=decimal)
    check_choices(choices, names, name)  # the target that was found may be one to drop
    if choices.finds_ids:
        choices = replace(choices, finds_ids=choices.ids is None)
        ids = choices.ids or find_ids(table.select([n for n in inputs if n != target]), choices)
        choices = replace(choices, ids=ids)
    return table, choices


def _find_target(inputs: list[str], name: str) -> str:
    """Return the column named like a target, or the only one; raise if that is not one."""
    candidates = [column for column in inputs if column.strip().casefold() in TARGETS]
    if len(candidates) == 1 or len(inputs) == 1:
        return (candidates or inputs)[0]
    raise DataError(
        f"target must name the column of {name} to predict; none is named, and "
        f"{'several are' if candidates else 'none is'} called {', '.join(TARGETS[:-1])} or "
        f"{TARGETS[-1]}. Its columns are {abridge(inputs)}. Name it, as in "
        f"target={(candidates or inputs)[-1]!r}."
    )


def find_ids(table: pa.Table, choices: Choices) -> str | None:
    """Return the first column that can be ids, one named "id" first; None if none can."""
    reserved = {*choices.drop, *choices.keep, *choices.categorical, *choices.text}
    candidates = []
    if table.num_columns < 2:  # the only feature
        return None
    for name in table.column_names:
        values = table[name]
        is_whole = pa.types.is_integer(values.type)
        is_string = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
        if name in reserved or not (is_whole or is_string) or values.null_count:
            continue
        is_unique = pc.count_distinct(values).as_py() == table.num_rows
        if is_unique and read_column(values, name, choices).names_rows:
            candidates.append(name)
    return next(filter(is_id_name, candidates), take_first(candidates))


def column_names(table: pa.Table, name: str) -> list[str]:
    """Return a table's column names; raise if they repeat or are no text."""
    try:
        names = table.column_names
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name} must name its columns in UTF-8; one name is none. Rename it."
        ) from error
    repeated = sorted(n for n, count in Counter(names).items() if count > 1)
    if repeated:
        raise DataError(
            f"column names must differ; in {name} these occur more than once: {abridge(repeated)}. "
            "Rename them."
        )
    return names


def check_names(names: list[str], name: str, choices: Choices) -> None:
    """Raise if a role names a column that is not among `names`."""
    for role in ROLES:
        column = getattr(choices, role)
        is_name = isinstance(column, str)
        if column is not None and (not is_name or column not in names):
            raise DataError(
                f"{role} must name a column of {name}; got "
                f"{repr(column) if is_name else type(column).__name__}. Its columns are "
                f"{abridge(names)}."
            )
    check_choices(choices, names, name)


def _check_inputs(
    inputs: list[str], names: list[str], name: str, target: str | None, choices: Choices
) -> None:
    """Raise if the table has no target, no feature, or a feature without a name."""
    if "" in inputs:
        raise DataError(
            f"every feature column must have a name; one of {name} has none. If it numbers the "
            "rows, name it and pass that as ids, or write the table without it (index=False)."
        )
    if target in choices.roles and choices.roles[target] != "target":
        raise DataError(
            f"column {target!r} cannot be target and {choices.roles[target]} at once. Name it once."
        )
    if target is None or not inputs:
        raise DataError(
            f"{name} must hold a target column and at least one feature besides ids, source, "
            f"trusted, groups and time; got {abridge(names) or 'no columns'}. Check the separator "
            "(a comma in .csv, a tab in .tsv) and the names given for target, ids and source."
        )
