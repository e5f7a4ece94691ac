"""The files of a purification: tables and summary."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from datassay.act.purify.loop import Purification
from datassay.commands.purify.job import PurifyFindings, before_and_after, foreign
from datassay.report.page import Page
from datassay.report.tables import column, labels, standard_json

FILES = {
    "purified.parquet": "every sample's verdict",
    "keep.parquet": "the ids to keep",
    "trace.parquet": "the curves",
    "summary.json": "the figures above",
}


def files(findings: PurifyFindings, page: Page) -> dict[str, pa.Table | str]:
    """What stands beside the page: file name → table or text."""
    ours = findings.purification
    return {
        "purified.parquet": purified_table(findings),
        "keep.parquet": pa.table({"position": ours.keep, "id": column(ours.ids[ours.keep])}),
        "trace.parquet": trace_table(findings),
        "summary.json": _summary(findings, page),
    }


def purified_table(findings: PurifyFindings) -> pa.Table:
    """Every sample's verdict.

    Returns:
        One row a sample, in the samples' order: id, removed, step (0: kept), label (class index or
        target), class_name and suggested_label by the model fitted to what is kept; true_label and
        source where they are known.
    """
    samples = findings.samples
    table = findings.purification.to_table()
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

    Returns:
        One row a point: ranking, step, is_kept (up to the stop), then the trace; its `test` is of
        the validation samples of the majority's source.
    """
    both = (findings.purification, findings.rival)
    return pa.concat_tables([_one_trace(one) for one in both if one is not None])


def _one_trace(purification: Purification) -> pa.Table:
    table = purification.trace.to_table()
    steps = np.arange(table.num_rows)
    table = table.add_column(0, "is_kept", pa.array(steps <= purification.steps))
    table = table.add_column(0, "step", pa.array(steps))
    return table.add_column(0, "ranking", pa.array([purification.order] * len(steps)))


def _summary(findings: PurifyFindings, page: Page) -> str:
    ours, truth = findings.purification, foreign(findings)
    return standard_json({
        **page.head,
        "counts": {
            "train": len(findings.samples),
            "validation": len(findings.validation),
            "removed": len(ours.removed),
            "kept": len(ours.keep),
            "steps": ours.steps,
            "known_foreign": None if truth is None else int(truth.mask.sum()),
        },
        "order": ours.order,
        "rule": ours.rule,
        "threshold": ours.threshold,
        "metric": findings.metric,
        "majority_source": findings.majority or None,
        **dict(zip(("start", "stop", "rival"), before_and_after(findings), strict=False)),
    })
