"""What `purify`, `partition` and `weigh` print when they are done."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from datassay.report.partition_findings import PartitionFindings
from datassay.report.partition_page import agreement_rows, block_columns, block_rows
from datassay.report.purify_findings import PurifyFindings
from datassay.report.purify_page import compared_columns, compared_rows
from datassay.report.weigh_advice import weigh_advice
from datassay.report.weigh_findings import WeighFindings
from datassay.report.weigh_page import gain_columns, gain_rows
from datassay.report.wording import count
from datassay.terminal import plain_text, warned


def purify_table(findings: PurifyFindings) -> list[RenderableType]:
    """What was removed, and the figures before and after.

    Args:
        findings: one purification.

    Returns:
        What to print, in order.
    """
    found = findings.found
    table = _table(compared_columns(findings))
    for row in compared_rows(findings):
        table.add_row(plain_text(row.name), *row.cells)
    how = f"order {found.order}, rule {found.rule}, {count(found.steps, 'step')}"
    total = len(findings.samples)
    line = f"Leave out {len(found.removed):,} of {count(total, 'sample')} ({how})."
    return [table, Text(line), *warned(findings.warnings)]


def partition_table(findings: PartitionFindings) -> list[RenderableType]:
    """The blocks, how many were tried, and how well they agree with what is known.

    Args:
        findings: one partition.

    Returns:
        What to print, in order.
    """
    blocks = _table(block_columns(findings))
    for row in block_rows(findings):
        blocks.add_row(plain_text(row.name), *row.cells)
    figures = _table(["", ""])
    figures.show_header = False
    for row in agreement_rows(findings):
        figures.add_row(plain_text(row.name), *row.cells)
    return [blocks, figures, *warned(findings.warnings)]


def weigh_table(findings: WeighFindings) -> list[RenderableType]:
    """Scores with and without the weights, and the short answers.

    Args:
        findings: one weighting.

    Returns:
        What to print, in order.
    """
    shown: list[RenderableType] = []
    if findings.gain is not None:
        table = _table(gain_columns(findings.gain))
        for row in gain_rows(findings.gain):
            table.add_row(plain_text(row.name), *row.cells)
        shown.append(table)
    lines = [Text(f"{told.headline}.") for told in weigh_advice(findings) if told.kind != "contest"]
    return [*shown, *lines, *warned(findings.warnings)]


def _table(columns: list[str]) -> Table:
    table = Table()
    for place, name in enumerate(columns):
        table.add_column(name, justify="right" if place else "left")
    return table
