"""The files: a table and a summary."""

import pyarrow as pa

from datassay.report.tables import standard_json

FILES = {"tally.parquet": "samples of each class", "summary.json": "the figures above"}


def files(findings, page):
    """What stands beside the page."""
    table = pa.table({"class": findings.names, "samples": findings.sizes})
    return {"tally.parquet": table, "summary.json": standard_json({**page.head, "n": 1})}
