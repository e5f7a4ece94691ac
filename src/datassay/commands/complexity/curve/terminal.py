"""What `complexity DATA` prints."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from datassay.commands.complexity.curve.advice import curve_advice
from datassay.commands.complexity.curve.findings import CurveFindings
from datassay.commands.complexity.curve.page import (
    ahead_columns,
    ahead_rows,
    needed_columns,
    needed_rows,
)
from datassay.commands.terminal import rows_table, warned


def curve_table(findings: CurveFindings) -> list[RenderableType]:
    """What the wanted scores need, what more samples bring, and the short answers.

    Args:
        findings: one learning curve.

    Returns:
        What to print, in order.
    """
    lines = [Text(f"{told.headline}.") for told in curve_advice(findings)]
    return [
        rows_table(needed_columns(findings), needed_rows(findings)),
        rows_table(ahead_columns(findings), ahead_rows(findings)),
        *lines,
        *warned(findings.warnings),
    ]
