"""How the columns of the data were read: a line for the terminal, a table for the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from datassay.data.samples import Column
from datassay.data.tables.read import ROLES
from datassay.report.page import Row, Section, Table
from datassay.report.wording import count

SHOWN = 3  # columns that the line names
MOST_ROWS = 200  # of the table; summary.json holds all
_PLURAL = {"category": "categories"}


def columns_line(columns: Sequence[Column]) -> str:
    """Return the columns' counts by kind, and notes on the first unusual ones, in one line."""
    roles = (*ROLES, "left out")
    kinds = Counter(c.read_as for c in columns if c.read_as not in roles)
    parts = [count(n, kind, _PLURAL.get(kind)) for kind, n in kinds.items()]
    formats = {"target": "target {0.name} ({1})"}
    parts += [
        formats.get(c.read_as, "{0.read_as} {0.name}").format(c, _classes(c))
        for c in columns
        if c.read_as in roles[:3]
    ]
    missing = [c for c in columns if c.missing]
    if missing:
        parts += [f"{count(len(missing), 'column')} with missing values"]
    notes = [f"{c.name}: {c.read_as}, {c.note}" for c in columns if c.note]
    unlisted = []
    if len(notes) > SHOWN:
        unlisted = [f"{len(notes) - SHOWN:,} more with a note"]
    return ". ".join(text for text in [", ".join(parts), *notes[:SHOWN], *unlisted] if text)


def columns_section(columns: Sequence[Column]) -> tuple[Section, ...]:
    """Return a section that tells how each column was read, noted ones first if many."""
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
            read_as = f"target, {_classes(c)}"
        else:
            read_as = c.read_as + values
        outcome = "; ".join(text for text in (c.treatment, c.note) if text)
        rows.append(Row(c.name, (read_as, f"{c.missing:,}" if c.missing else "", outcome)))
    note = ""
    if columns[MOST_ROWS:]:
        note = f"{len(columns) - MOST_ROWS:,} more are in summary.json."
    head = ("column", "kind", "missing", "what became of it, and why")
    table = Table("How each column was read", head, tuple(rows), note=note, prose=True)
    return (Section("columns", "Columns", "How the columns were read", (table,)),)


def _classes(column: Column) -> str:
    if not column.n_values:
        return "a quantity"
    return count(column.n_values, "class", "classes")
