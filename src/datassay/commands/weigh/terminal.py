"""What `weigh` prints when it is done."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from datassay.commands.terminal import rows_table, warned
from datassay.commands.weigh.advice import weigh_advice
from datassay.commands.weigh.findings import WeighFindings
from datassay.commands.weigh.page import gain_columns, gain_rows


def weigh_table(findings: WeighFindings) -> list[RenderableType]:
    """Scores with and without the weights, and the short answers.

    Args:
        findings: one weighting.

    Returns:
        What to print, in order.
    """
    shown: list[RenderableType] = []
    if findings.gain is not None:
        shown.append(rows_table(gain_columns(findings.gain), gain_rows(findings.gain)))
    lines = [Text(f"{told.headline}.") for told in weigh_advice(findings) if told.kind != "contest"]
    return [*shown, *lines, *warned(findings.warnings)]
