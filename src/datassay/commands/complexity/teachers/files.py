"""The files of the sample complexity of teacher networks: table, summary and page."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from datassay.commands.complexity.teachers.advice import teacher_advice
from datassay.commands.complexity.teachers.findings import TeacherFindings
from datassay.commands.complexity.teachers.page import render_teacher_page
from datassay.report.tables import standard_json
from datassay.report.write import write_pages

TEACHER_FILES = ("trials.parquet", "summary.json", "index.html")


def write_teachers(findings: TeacherFindings, out: Path) -> Path:
    """Write TEACHER_FILES into a folder, all of them or none.

    Args:
        findings: of teacher networks.
        out: the folder; made where it does not exist.

    Returns:
        The path of the page.

    Raises:
        SettingError: the folder cannot be written, or the disk is full.
    """
    parts = (findings.table.to_table(), teacher_summary(findings), render_teacher_page(findings))
    return write_pages(dict(zip(TEACHER_FILES, parts, strict=True)), out)


def teacher_summary(findings: TeacherFindings) -> str:
    """The sizes and the laws in figures.

    Args:
        findings: of teacher networks.

    Returns:
        JSON text; a median that is not there is null.
    """
    return standard_json({
        "facts": findings.facts,
        "warnings": findings.warnings,
        "advice": [asdict(a) for a in teacher_advice(findings)],
        "search": findings.table.search.manifest(),
        "varied": findings.varied,
        "sizes": [
            {
                "n_inputs": s.n_inputs,
                "width": s.width,
                "median": s.median,
                "n_opt": s.n_opt,
                "not_recovered": s.n_not_recovered,
            }
            for s in findings.table.sizes
        ],
        "laws": [asdict(law) for law in findings.laws],
    })
