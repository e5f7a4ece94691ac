"""What `datassay lab` lists: every experiment, for readers and for programs."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from datassay.report import standard_json
from datassay_lab.catalog import experiments
from datassay_lab.parameters import defaults, kind_of


def catalog_table() -> RenderableType:
    """Every experiment with its statement, by chapter."""
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
    """Every experiment with its texts and parameters."""
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
