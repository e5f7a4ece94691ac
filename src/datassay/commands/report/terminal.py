"""What `report` prints when it is done."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from datassay.commands.report.advice import consensus_advice
from datassay.commands.report.findings import ConsensusFindings
from datassay.commands.report.page import vote_columns, vote_rows
from datassay.commands.terminal import rows_table, warned


def consensus_table(findings: ConsensusFindings) -> list[RenderableType]:
    """How many runs suspect how many labels, and what to do next.

    Args:
        findings: of two runs or more.

    Returns:
        What to print, in order.
    """
    rows = vote_rows(findings)
    shown = [rows_table(vote_columns(findings), rows)] if rows else []
    told = [Text(f"{a.headline}. {a.sentence}") for a in consensus_advice(findings)]
    return [*shown, *told, *warned(findings.warnings)]
