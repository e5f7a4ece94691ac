"""A page in short, as a notebook shows the value of a cell: verdict, a table, where to look."""

from markupsafe import Markup, escape

from datassay.optional import text_if
from datassay.report.page import Table

LEFT, RIGHT = "text-align:left", "padding-left:1em;text-align:right"
IN_A_LINE = ";white-space:nowrap"


def short_html(verdict: str, *more: Table | str) -> str:
    """Return the answer, tables and small print as HTML without scripts; Markup stays as it is."""
    parts = (
        _to_html(block) if isinstance(block, Table) else f"<p><small>{escape(block)}</small></p>"
        for block in more
    )  # fmt: skip
    return f'<div class="datassay"><p><b>{escape(verdict)}</b></p>{"".join(parts)}</div>'


def _to_html(table: Table) -> str:
    """Return a table as HTML, texts and images to the left, figures to the right."""
    figure_style = RIGHT + text_if(not table.wraps, IN_A_LINE)
    example = table.rows[0].cells if table.rows else ()
    styles = [LEFT]
    for cell in example:
        styles.append(f"padding-left:1em;{LEFT}" if isinstance(cell, Markup) else figure_style)
    head = [_cell("th", name, style) for name, style in zip(table.columns, styles, strict=True)]
    rows = [
        _cell("th", row.name, LEFT if row.best else f"{LEFT};font-weight:normal")
        + "".join(_cell("td", *cell) for cell in zip(row.cells, styles[1:], strict=True))
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
