"""How the columns of the data were read: the terminal's first line, a table for the page."""

from collections.abc import Sequence

import numpy as np

from datassay.data.samples import Column
from datassay.data.tables.read import ROLES
from datassay.optional import text_if
from datassay.report.page import Row, Section, Table
from datassay.report.wording import count, quantity

SHOWN = 3  # columns that the line names
MOST_ROWS = 200  # of the table; summary.json holds all


def first_line(
    name: str, n_samples: int, columns: Sequence[Column], y: np.ndarray, class_names: Sequence[str]
) -> str:
    """Return a line on the data that were read: rows, target, ids, columns left out.

    Args:
        name: of the data.
        n_samples: how many were read.
        columns: of a table; () of other data.
        y: targets; class indices where there are class names.
        class_names: () where the target is a quantity.
    """
    names = {c.read_as: c.name for c in columns if c.read_as in ROLES}
    target_words = _describe_targets(y, class_names)
    if not columns:
        return f"{name}: {count(n_samples, 'sample')}, {target_words}"
    targets = [c.name for c in columns if c.read_as == "target"]
    parts = [count(n_samples, "row"), f"target {', '.join(targets)} ({target_words})"]
    parts += [f"{role} {names[role]}" for role in ROLES[1:] if role in names]
    unused = [c.name for c in columns if c.read_as == "left out"]
    if unused:
        listed = unused[:SHOWN]
        if len(unused) > SHOWN:
            listed.append(f"{len(unused) - SHOWN:,} more")
        parts.append(f"{count(len(unused), 'column')} left out ({', '.join(listed)})")
    return f"{name}: {', '.join(parts)}"


def _describe_targets(y: np.ndarray, class_names: Sequence[str]) -> str:
    """Return the number of classes or targets, or the range of one target, in words."""
    if not class_names:
        if y.ndim > 1:
            return f"{y.shape[1]} a row"
        return f"{quantity(y.min())} to {quantity(y.max())}"
    if len(class_names) != 2:
        return count(len(class_names), "class", "classes")
    rare = int(y.mean() < 0.5)
    return f"2 classes, {100 * (y == rare).mean():.0f} % {class_names[rare]}"


def columns_section(columns: Sequence[Column]) -> tuple[Section, ...]:
    """Return (section with a row per column: how it was read), or () without columns."""
    if not columns:
        return ()
    rows = []
    if len(columns) > MOST_ROWS:
        ordered = sorted(columns, key=lambda c: not c.note)
    else:
        ordered = columns
    for c in ordered[:MOST_ROWS]:
        values = ""
        if c.n_values:
            values = f" with {count(c.n_values, 'value')}"
        if c.read_as == "target":
            read_as = f"target, {_describe_classes(c)}"
        else:
            read_as = c.read_as + values
        outcome = "; ".join(text for text in (c.treatment, c.note) if text)
        rows.append(Row(c.name, (read_as, text_if(c.missing, f"{c.missing:,}"), outcome)))
    note = text_if(columns[MOST_ROWS:], f"{len(columns) - MOST_ROWS:,} more are in summary.json.")
    head = ("column", "kind", "missing", "what became of it, and why")
    table = Table("How each column was read", head, tuple(rows), note=note, prose=True)
    return (Section("columns", "Columns", "How the columns were read", (table,)),)


def _describe_classes(column: Column) -> str:
    """Return the number of classes of a target column in words, or "a quantity"."""
    if not column.n_values:
        return "a quantity"
    return count(column.n_values, "class", "classes")
