"""What `lab` prints: the table of contents, and what the experiments found."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from datassay.commands.terminal import rows_table, warned
from datassay.lab.catalog import experiments
from datassay.lab.gallery import COLUMNS, agreement_rows
from datassay.lab.parameters import defaults, kind_of
from datassay.lab.record import Record, summary
from datassay.report.page import Row
from datassay.report.tables import standard_json


def catalog_table() -> RenderableType:
    """Every experiment with its statement, by chapter.

    Returns:
        What to print.
    """
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    before = ""
    for chapter, experiment in experiments():
        if chapter != before:
            table.add_row(Text(chapter, style="bold"), "")
        table.add_row(Text(f"  {experiment.name}"), Text(experiment.statement))
        before = chapter
    hint = Text("Run one: datassay lab NAME --out DIR; all on one page: datassay lab all")
    return Group(table, Text(), hint)


def catalog_json() -> str:
    """Every experiment with its texts and parameters.

    Returns:
        JSON text.
    """
    return standard_json([
        {
            "name": e.name,
            "chapter": chapter,
            "statement": e.statement,
            "formula": e.formula,
            "look_for": e.look_for,
            "source": e.source,
            "extra": e.extra or None,
            "parameters": [
                {"name": n, "default": v, "takes": kind_of(v)} for n, v in defaults(e).items()
            ],
        }
        for chapter, e in experiments()
    ]).rstrip()


def lab_table(records: Sequence[Record]) -> list[RenderableType]:
    """What the experiments found.

    Args:
        records: of the experiments.

    Returns:
        What to print, in order.
    """
    problems = [f"{r.name}: {r.problem}" for r in records if r.problem]
    # What each number measures is too long for a terminal's columns: for one experiment a line.
    rows = [Row(row.name, row.cells[1:]) for row in agreement_rows(records)]
    measures = [Text(f"Measured: {r.agreement.what}.") for r in records if r.agreement]
    table = rows_table([COLUMNS[0], *COLUMNS[2:]], rows)
    return [table, *(measures if len(records) == 1 else []), *warned(problems)]


def lab_json(records: Sequence[Record]) -> str:
    """What the experiments found, for programs.

    Args:
        records: of the experiments.

    Returns:
        JSON text.
    """
    return standard_json([summary(r) for r in records]).rstrip()
