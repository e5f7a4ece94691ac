"""What `complexity` prints when it is done."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from datassay.cli.terminal import rows_table, warned
from datassay.report.curve_advice import curve_advice
from datassay.report.curve_findings import CurveFindings
from datassay.report.curve_page import (
    ahead_columns,
    ahead_rows,
    needed_columns,
    needed_rows,
)
from datassay.report.teacher_advice import law_sentence
from datassay.report.teacher_findings import TeacherFindings
from datassay.report.teacher_page import SIZE_COLUMNS, size_rows


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


def teacher_table(findings: TeacherFindings) -> list[RenderableType]:
    """The sample complexity of every size, and the law.

    Args:
        findings: of teacher networks.

    Returns:
        What to print, in order.
    """
    lines = [] if findings.law is None else [Text(law_sentence(findings.law))]
    return [rows_table(SIZE_COLUMNS, size_rows(findings)), *lines, *warned(findings.warnings)]
