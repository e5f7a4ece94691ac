"""The files of a purification: tables, summary and page."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa

from datassay.act.purify.result import Purification
from datassay.commands.purify.advice import purify_advice
from datassay.commands.purify.findings import PurifyFindings, before_and_after, foreign
from datassay.commands.purify.page import render_purify_page
from datassay.report.tables import column, labels, standard_json
from datassay.report.write import write_pages

PURIFY_FILES = (
    "purified.parquet", "keep.parquet", "trace.parquet", "summary.json", "index.html",
)  # fmt: skip


def write_purification(findings: PurifyFindings, out: Path) -> Path:
    """Write PURIFY_FILES into a folder, all of them or none.

    Args:
        findings: one purification.
        out: the folder; made where it does not exist.

    Returns:
        The path of the page.

    Raises:
        SettingError: the folder cannot be written, or the disk is full.
    """
    found = findings.found
    kept = pa.table({"position": found.keep, "id": column(found.ids[found.keep])})
    parts = (
        purified_table(findings),
        kept,
        trace_table(findings),
        purify_summary(findings),
        render_purify_page(findings),
    )
    return write_pages(dict(zip(PURIFY_FILES, parts, strict=True)), out)


def purified_table(findings: PurifyFindings) -> pa.Table:
    """Every sample's verdict.

    Args:
        findings: one purification.

    Returns:
        One row a sample, in the samples' order: id, removed, step (0: kept), label (class index or
        target), class_name and suggested_label by the model fitted to what is kept; true_label and
        source where they are known.
    """
    samples = findings.samples
    table = findings.found.to_table()
    columns: dict[str, pa.ChunkedArray | pa.Array] = {
        "id": column(samples.ids),
        "removed": table["removed"],
        "step": table["step"],
        "label": column(samples.y),
    }
    if samples.is_classification:
        columns["class_name"] = labels(samples, samples.y)
    columns["suggested_label"] = labels(samples, findings.predicted)
    if samples.true_y is not None:
        columns["true_label"] = labels(samples, samples.true_y)
    if samples.source is not None:
        columns["source"] = column(samples.source)
    return pa.table(columns)


def trace_table(findings: PurifyFindings) -> pa.Table:
    """Every step of both rankings.

    Args:
        findings: one purification.

    Returns:
        One row a point: ranking, step, is_kept (up to the stop), then the trace; its `test` is of
        the validation samples of the majority's source.
    """
    found = [findings.found] + ([] if findings.rival is None else [findings.rival])
    return pa.concat_tables([_one_trace(one) for one in found])


def _one_trace(found: Purification) -> pa.Table:
    table = found.trace.to_table()
    steps = np.arange(table.num_rows)
    table = table.add_column(0, "is_kept", pa.array(steps <= found.steps))
    table = table.add_column(0, "step", pa.array(steps))
    return table.add_column(0, "ranking", pa.array([found.order] * len(steps)))


def purify_summary(findings: PurifyFindings) -> str:
    """The purification in figures.

    Args:
        findings: one purification.

    Returns:
        JSON text.
    """
    found, samples, truth = findings.found, findings.samples, foreign(findings)
    columns = before_and_after(findings)
    names = ("start", "stop", "rival")
    return standard_json({
        "facts": findings.facts,
        "warnings": findings.warnings,
        "advice": [asdict(a) for a in purify_advice(findings)],
        "counts": {
            "train": len(samples),
            "validation": len(findings.validation),
            "removed": len(found.removed),
            "kept": len(found.keep),
            "steps": found.steps,
            "known_foreign": None if truth is None else int(truth.mask.sum()),
        },
        "order": found.order,
        "rule": found.rule,
        "threshold": found.threshold,
        "metric": findings.metric,
        "majority_source": findings.majority or None,
        **dict(zip(names, columns, strict=False)),
    })
