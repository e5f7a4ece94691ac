"""What `complexity --inputs` prints."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from datassay.commands.complexity.teachers.advice import law_sentence
from datassay.commands.complexity.teachers.findings import TeacherFindings
from datassay.commands.complexity.teachers.page import SIZE_COLUMNS, size_rows
from datassay.commands.terminal import rows_table, warned


def teacher_table(findings: TeacherFindings) -> list[RenderableType]:
    """The sample complexity of every size, and the law.

    Args:
        findings: of teacher networks.

    Returns:
        What to print, in order.
    """
    lines = [] if findings.law is None else [Text(law_sentence(findings.law))]
    return [rows_table(SIZE_COLUMNS, size_rows(findings)), *lines, *warned(findings.warnings)]
