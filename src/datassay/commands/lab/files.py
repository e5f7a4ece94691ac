"""The file beside the lab's page; every experiment keeps its own in a folder of its name."""

from __future__ import annotations

from datassay.commands.lab.findings import LabFindings
from datassay.lab.record import summary
from datassay.report.page import Page
from datassay.report.tables import standard_json

FILES = {"summary.json": "these figures for programs"}


def files(findings: LabFindings, page: Page) -> dict[str, str]:
    """What stands beside the page."""
    experiments = [summary(record) for record in findings.records]
    return {"summary.json": standard_json({**page.head, "experiments": experiments})}
