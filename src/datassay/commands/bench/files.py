"""The files of `datassay bench`: table and summary."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

from datassay.commands.bench.findings import BenchFindings
from datassay.report.tables import standard_json
from datassay.report.write import write_pages

BENCH_FILES = ("bench.parquet", "summary.json")


def write_bench(findings: BenchFindings, out: Path) -> Path:
    """Write BENCH_FILES into a folder, both or none.

    Args:
        findings: what was measured.
        out: the folder; made where it does not exist.

    Returns:
        The path of the table.

    Raises:
        SettingError: the folder cannot be written, or the disk is full.
    """
    rows = [
        {"case": name, **asdict(found), "ratio": found.ratio}
        for name, found in findings.cases.items()
    ]
    text = standard_json({"facts": findings.facts, "cases": rows})
    write_pages(dict(zip(BENCH_FILES, (pa.Table.from_pylist(rows), text), strict=True)), out)
    return out / BENCH_FILES[0]
