"""The files of a trust check: every score as a table, and the summary."""

from __future__ import annotations

from dataclasses import asdict

import pyarrow as pa

from datassay.commands.bench.trust.findings import TrustFindings
from datassay.report.page import Page
from datassay.report.tables import standard_json

FILES = {"bench.parquet": "every score", "summary.json": "the figures above"}


def files(findings: TrustFindings, page: Page) -> dict[str, pa.Table | str]:
    """What stands beside the page."""
    check, table = findings.check, findings.check.to_table()
    smooth = check.smoothness
    return {
        "bench.parquet": table,
        "summary.json": standard_json({
            **page.head,
            "scores": table.to_pylist(),
            "ceiling": asdict(check.ceiling),
            "reliability": asdict(check.reliability),
            "halves": check.n_halves,
            "queries": check.n_queries,
            "smoothness": smooth and {**smooth.means, "agreement": smooth.agreement},
        }),
    }
