"""What `polynomial` prints when it is done."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from datassay.commands.polynomial.advice import polynomial_advice
from datassay.commands.polynomial.findings import PolynomialFindings
from datassay.commands.polynomial.page import score_columns, score_rows
from datassay.commands.terminal import plain_text, rows_table, warned


def polynomial_table(findings: PolynomialFindings) -> list[RenderableType]:
    """Scores beside simpler models, and the short answers.

    Args:
        findings: one surrogate.

    Returns:
        What to print, in order.
    """
    table = rows_table(score_columns(findings), score_rows(findings))
    fit = plain_text(f"{findings.facts['Features']}; {findings.facts['Fit']}.")
    lines = [Text(f"{told.headline}.") for told in polynomial_advice(findings)]
    return [table, fit, *lines, *warned(findings.warnings)]
