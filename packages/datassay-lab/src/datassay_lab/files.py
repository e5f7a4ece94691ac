"""The file beside the lab's page; every experiment keeps its own in a folder of its name."""

from __future__ import annotations

from datassay.report import Page, standard_json
from datassay_lab.job import LabFindings
from datassay_lab.record import summary

FILES = {"summary.json": "these figures for programs"}


def files(findings: LabFindings, page: Page) -> dict[str, str]:
    """What stands beside the page."""
    experiments = [summary(record) for record in findings.records]
    return {"summary.json": standard_json({**page.head, "experiments": experiments})}
