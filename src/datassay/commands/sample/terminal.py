"""What `sample` prints when it is done."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from datassay.commands.sample.findings import SamplingFindings
from datassay.commands.sample.page import ERROR_COLUMNS, error_rows
from datassay.commands.terminal import rows_table, warned
from datassay.report.wording import count


def sampling_table(findings: SamplingFindings) -> list[RenderableType]:
    """What was sampled, and the errors of networks on it.

    Args:
        findings: one sampling.

    Returns:
        What to print, in order.
    """
    found, shown = findings.found, []
    rows = error_rows(findings)
    if rows:
        shown.append(rows_table(ERROR_COLUMNS, rows))
    new = int(found.is_new.sum())
    how = (
        f"{found.derivatives} derivatives to order {found.order}, acceptance {found.acceptance:.3f}"
    )
    line = f"{count(new, 'new point')} beside {len(found.index):,} initial ones ({how})."
    return [*shown, Text(line), *warned(findings.warnings)]
