"""What `purify` and `partition` print when they are done."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from datassay.cli.terminal import rows_table, warned
from datassay.report.partition_findings import PartitionFindings
from datassay.report.partition_page import agreement_rows, block_columns, block_rows
from datassay.report.purify_findings import PurifyFindings
from datassay.report.purify_page import compared_columns, compared_rows
from datassay.report.wording import count


def purify_table(findings: PurifyFindings) -> list[RenderableType]:
    """What was removed, and the figures before and after.

    Args:
        findings: one purification.

    Returns:
        What to print, in order.
    """
    found = findings.found
    table = rows_table(compared_columns(findings), compared_rows(findings))
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
    blocks = rows_table(block_columns(findings), block_rows(findings))
    figures = rows_table(["", ""], agreement_rows(findings))
    figures.show_header = False
    return [blocks, figures, *warned(findings.warnings)]
