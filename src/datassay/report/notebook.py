"""A page in short, as a notebook shows the value of a cell: verdict, a table, where to look."""

from markupsafe import Markup, escape

from datassay.optional import text_if
from datassay.report.page import Table

LEFT, RIGHT = "text-align:left", "padding-left:1em;text-align:right"
IN_A_LINE = ";white-space:nowrap"


def short_html(verdict: str, *more: Table | str) -> str:
    """Return the answer, tables and small print as HTML without scripts; Markup stays as it is."""
    parts = (
        _table(m) if isinstance(m, Table) else f"<p><small>{escape(m)}</small></p>" for m in more
    )
    return f'<div class="datassay"><p><b>{escape(verdict)}</b></p>{"".join(parts)}</div>'


def _table(table: Table) -> str:
    in_a_line = text_if(not table.wraps, IN_A_LINE)
    example = ()
    if table.rows:
        example = table.rows[0].cells  # texts and images to the left
    sides = [f"padding-left:1em;{LEFT}" if isinstance(c, Markup) else RIGHT + in_a_line
             for c in example]  # fmt: skip
    sides = [LEFT, *sides]
    head = [_cell("th", name, side) for name, side in zip(table.columns, sides, strict=True)]
    rows = [
        _cell("th", row.name, LEFT if row.best else f"{LEFT};font-weight:normal")
        + "".join(_cell("td", *cell) for cell in zip(row.cells, sides[1:], strict=True))
        for row in table.rows
    ]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return (
        f'<table><caption style="{LEFT};padding-top:1em">{escape(table.name)}</caption>'
        f"<thead><tr>{''.join(head)}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def _cell(tag: str, text: str, style: str) -> str:
    return f'<{tag} style="{style}">{escape(text)}</{tag}>'
