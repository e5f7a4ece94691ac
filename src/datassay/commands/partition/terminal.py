"""What `partition` prints."""

from __future__ import annotations

from rich.console import RenderableType

from datassay.commands.partition.findings import PartitionFindings
from datassay.commands.partition.page import agreement_rows, block_columns, block_rows
from datassay.commands.terminal import rows_table, warned


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
