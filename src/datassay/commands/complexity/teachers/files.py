"""The files of the sample complexity of teacher networks: table and summary."""

from __future__ import annotations

from dataclasses import asdict

import pyarrow as pa

from datassay.commands.complexity.teachers.findings import TeacherFindings
from datassay.report.page import Page
from datassay.report.tables import standard_json

FILES = {"trials.parquet": "every teacher", "summary.json": "the figures above"}


def files(findings: TeacherFindings, page: Page) -> dict[str, pa.Table | str]:
    """What stands beside the page."""
    return {"trials.parquet": findings.table.to_table(), "summary.json": _summary(findings, page)}


def _summary(findings: TeacherFindings, page: Page) -> str:
    """JSON; a median that is not there is null."""
    return standard_json({
        **page.head,
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
