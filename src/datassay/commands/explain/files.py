"""The files of an explanation: effects, samples, summary."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from datassay.commands.explain.findings import ExplainFindings
from datassay.report.page import Page
from datassay.report.tables import column, effect_table, standard_json

FILES = {
    "effects.parquet": "the samples that raised and lowered each query's measure most",
    "samples.parquet": "every sample's self-influence and total effect",
    "summary.json": "the figures above",
}


def files(findings: ExplainFindings, page: Page) -> dict[str, pa.Table | str]:
    """What stands beside the page."""
    return {
        "effects.parquet": effect_table(findings.attribution, findings.queries),
        "samples.parquet": sample_table(findings),
        "summary.json": _summary(findings, page),
    }


def sample_table(findings: ExplainFindings) -> pa.Table:
    """Every sample's self-influence and its effects on all queries together.

    Returns:
        One row a sample, in the samples' order: id, self_influence (how much its presence lowers
        its own loss; null where that is not known) and total.
    """
    return pa.table({
        "id": column(findings.ids),
        "self_influence": pa.array(findings.self_influence, from_pandas=True),
        "total": pa.array(findings.attribution.total),
    })


def _summary(findings: ExplainFindings, page: Page) -> str:
    attribution, samples = findings.attribution, findings.samples
    return standard_json({
        **page.head,
        "counts": {
            "train": len(findings.ids),
            "queries": len(findings.queries),
            "classes": samples.n_classes,
            "predicted_wrongly": findings.n_wrong,
        },
        "queries": findings.kind,
        "loss": findings.loss,
        "measure": attribution.measure,
        "method": attribution.method,
        "median_self_influence": float(np.median(findings.self_influence)),
        "largest_self_influence": [str(i) for i in findings.ids[findings.first[:20]]],
    })
