"""A page in short, as a notebook shows the value of a cell: its opening table, advice, warnings."""

from __future__ import annotations

from html import escape

from datassay.report.page import Page, Table

LEFT, RIGHT = "text-align:left", "text-align:right"
IN_A_LINE = ";white-space:nowrap"


def short_html(page: Page) -> str:
    """HTML of the answer, without scripts, in the colours of the notebook."""
    opening = [block for section in page.opening for block in section.blocks]
    parts = [f"<p><b>{escape(page.title)}</b>. {escape(page.lead)}</p>"]
    parts += [_table(block) for block in opening if isinstance(block, Table)]
    told = [f"<li><b>{escape(a.headline)}.</b> {escape(a.sentence)}</li>" for a in page.advice]
    parts += [f"<ul>{''.join(told)}</ul>"] if told else []
    parts += [f"<p><b>Warning:</b> {escape(warning)}</p>" for warning in page.warnings]
    return f'<div class="datassay">{"".join(parts)}</div>'


def _table(table: Table) -> str:
    in_a_line = "" if table.wraps else IN_A_LINE
    sides = [LEFT] + [RIGHT + in_a_line] * (len(table.columns) - 1)
    if table.prose:
        sides[-1] = LEFT
    head = [_cell("th", name, side) for name, side in zip(table.columns, sides, strict=True)]
    rows = [
        _cell("th", row.name, LEFT if row.best else f"{LEFT};font-weight:normal")
        + "".join(_cell("td", *cell) for cell in zip(row.cells, sides[1:], strict=True))
        for row in table.rows
    ]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    note = f"<p><small>{escape(table.note)}</small></p>" if table.note else ""
    return (
        f"<table><caption>{escape(table.name)}</caption><thead><tr>{''.join(head)}</tr></thead>"
        f"<tbody>{body}</tbody></table>{note}"
    )


def _cell(tag: str, text: str, style: str) -> str:
    return f'<{tag} style="{style}">{escape(text)}</{tag}>'
