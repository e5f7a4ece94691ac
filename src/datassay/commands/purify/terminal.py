"""What `purify` prints."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from datassay.commands.purify.findings import PurifyFindings
from datassay.commands.purify.page import compared_columns, compared_rows
from datassay.commands.terminal import rows_table, warned
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
