"""The page of the sample complexity of teacher networks."""

from __future__ import annotations

import math

import numpy as np

from datassay.commands.complexity.teachers.advice import teacher_advice, written
from datassay.commands.complexity.teachers.figures import teacher_figures
from datassay.commands.complexity.teachers.findings import TeacherFindings
from datassay.commands.complexity.teachers.method import teacher_notes
from datassay.complexity.sample_complexity import SampleComplexity
from datassay.report.old_html import advice_cards, render
from datassay.report.page import Row

SIZE_COLUMNS = ["inputs d", "width m", "median N", "range over teachers", "not recovered"]
LAW_COLUMNS = ["law", "R² of the medians", "with teachers resampled"]


def render_teacher_page(findings: TeacherFindings) -> str:
    """The findings as one self-contained HTML page; see `html.render` for what it promises.

    Args:
        findings: of teacher networks.

    Returns:
        HTML.
    """
    scripts = ("figures.js",)
    return render("teachers.html", scripts, _context(findings), teacher_figures(findings))


def _context(findings: TeacherFindings) -> dict[str, object]:
    sections = [
        ("next", "What to do next"),
        ("complexity", "Samples needed"),
        ("sizes", "Every size"),
        *([("laws", "Laws")] * bool(findings.laws)),
        ("method", "Method"),
    ]
    return {
        "brand": "datassay complexity · how many samples recover a network",
        "title": "Sample complexity of teacher networks",
        "lead": lead(findings),
        "facts": findings.facts,
        "warnings": findings.warnings,
        "advice": advice_cards(teacher_advice(findings)),
        "gallery_view": "all",
        "sections": sections,
        "size_columns": SIZE_COLUMNS,
        "size_rows": size_rows(findings),
        "law_columns": LAW_COLUMNS,
        "law_rows": law_rows(findings),
        "method": teacher_notes(findings),
    }


def lead(findings: TeacherFindings) -> str:
    """The answer in one sentence.

    Args:
        findings: of teacher networks.

    Returns:
        The law with its R², or how many sizes there are.
    """
    law = findings.law
    if law is None:
        return "samples from which half of the students recover their teacher"
    return f"{written(law)} with R² {law.r_squared:.3f} over the medians of {len(findings.x)} sizes"


def size_rows(findings: TeacherFindings) -> list[Row]:
    """The table of sizes.

    Args:
        findings: of teacher networks.

    Returns:
        d, m, median N, least and most over the teachers, teachers not recovered.
    """
    return [_size_row(s) for s in findings.table.sizes]


def law_rows(findings: TeacherFindings) -> list[Row]:
    """The laws, best first.

    Args:
        findings: of teacher networks.

    Returns:
        Formula, R² and its interval.
    """
    rows = []
    for law in findings.laws:
        low, high = law.r_squared_interval
        rows.append(Row(written(law), (f"{law.r_squared:.3f}", f"{low:.3f} to {high:.3f}")))
    return rows


def _size_row(size: SampleComplexity) -> Row:
    found = size.n_opt[np.isfinite(size.n_opt)]
    median = f"{size.median:,.0f}" if math.isfinite(size.median) else "not recovered"
    spread = f"{found.min():,.0f} to {found.max():,.0f}" if len(found) else "–"
    lost = f"{size.n_not_recovered} of {len(size.n_opt)}"
    return Row(str(size.n_inputs), (str(size.width), median, spread, lost))
