"""The files of `datassay bench`: table and summary."""

from __future__ import annotations

from dataclasses import asdict

import pyarrow as pa

from datassay.commands.bench.claims.findings import BenchFindings
from datassay.report.page import Page
from datassay.report.tables import standard_json

FILES = {"bench.parquet": "every case", "summary.json": "the figures above"}


def files(findings: BenchFindings, page: Page) -> dict[str, pa.Table | str]:
    """What stands beside the page."""
    rows = [
        {"case": name, **asdict(measured), "ratio": measured.ratio}
        for name, measured in findings.cases.items()
    ]
    summary = standard_json({**page.head, "cases": rows})
    return {"bench.parquet": pa.Table.from_pylist(rows), "summary.json": summary}
