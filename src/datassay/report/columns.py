"""How the columns of the data were read: a line for the terminal, a table for the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from datassay.data.samples import Column
from datassay.report.page import Row, Section, Table
from datassay.report.wording import count

SHOWN = 3  # columns that the line names
MOST_ROWS = 200  # of the table; summary.json holds all
_PLURAL = {"category": "categories"}


def columns_line(columns: Sequence[Column]) -> str:
    """Counts by kind, and the first columns that are not as usual."""
    roles = ("target", "ids", "source", "left out")
    kinds = Counter(c.read_as for c in columns if c.read_as not in roles)
    parts = [count(n, kind, _PLURAL.get(kind)) for kind, n in kinds.items()]
    parts += [_named(c) for c in columns if c.read_as in roles[:3]]
    missing = [c for c in columns if c.missing]
    parts += [f"{count(len(missing), 'column')} with missing values"] * bool(missing)
    noted = [f"{c.name}: {c.read_as}, {c.note}" for c in columns if c.note]
    more = [f"{len(noted) - SHOWN:,} more with a note"] * (len(noted) > SHOWN)
    return ". ".join([", ".join(parts)] * bool(parts) + noted[:SHOWN] + more)


def columns_section(columns: Sequence[Column]) -> tuple[Section, ...]:
    """How each column was read; those with a note first where there are many."""
    if not columns:
        return ()
    shown = sorted(columns, key=lambda c: not c.note) if len(columns) > MOST_ROWS else columns
    rows = tuple(
        Row(c.name, (_read_as(c), f"{c.missing:,}" if c.missing else "", _became(c)))
        for c in shown[:MOST_ROWS]
    )
    note = f"{len(columns) - MOST_ROWS:,} more are in summary.json." * (len(columns) > MOST_ROWS)
    head = ("column", "kind", "missing", "what became of it, and why")
    table = Table("How each column was read", head, rows, note=note, prose=True)
    return (Section("columns", "Columns", "How the columns were read", (table,)),)


def _named(column: Column) -> str:
    if column.read_as != "target":
        return f"{column.read_as} {column.name}"
    return f"target {column.name} ({_classes(column)})"


def _read_as(column: Column) -> str:
    if column.read_as == "target":
        return f"target, {_classes(column)}"
    values = f" with {count(column.n_values, 'value')}" if column.n_values else ""
    return column.read_as + values


def _became(column: Column) -> str:
    return "; ".join(part for part in (column.treatment, column.note) if part)


def _classes(column: Column) -> str:
    return count(column.n_values, "class", "classes") if column.n_values else "a quantity"
