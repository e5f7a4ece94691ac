"""The files of a run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from datassay.commands.run.findings import Findings
from datassay.commands.run.page import render_page
from datassay.commands.run.summary import summary_json
from datassay.commands.run.table import attribution_table, score_table
from datassay.report.write import write_files


def write_results(findings: Findings, out: Path) -> Path:
    """Write index.html, scores.parquet, attribution.parquet and summary.json into a folder.

    All four are completed in a temporary folder on the same disk, then moved into place one by
    one, so an interruption leaves earlier results intact and never a half-written file. The
    temporary folder goes away whatever happens.

    Args:
        findings: one run's results.
        out: the folder; made where it does not exist. Other files in it stay.

    Returns:
        The path of the page.

    Raises:
        SettingError: the folder cannot be written, or the disk is full.
    """
    write_files({name: partial(write, findings) for name, write in WRITERS.items()}, out)
    return out / "index.html"


def _write_page(findings: Findings, path: Path) -> None:
    path.write_text(render_page(findings), encoding="utf-8")


def _write_table(findings: Findings, path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(score_table(findings), path)


def _write_attribution(findings: Findings, path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(attribution_table(findings), path)


def _write_summary(findings: Findings, path: Path) -> None:
    path.write_text(summary_json(findings), encoding="utf-8")


# The page comes last into place, so a new page never stands beside older tables.
WRITERS: dict[str, Callable[[Findings, Path], None]] = {
    "scores.parquet": _write_table,
    "attribution.parquet": _write_attribution,
    "summary.json": _write_summary,
    "index.html": _write_page,
}
