"""The files of a weighting: table, summary and page."""

from __future__ import annotations

from dataclasses import asdict

import pyarrow as pa

from datassay.commands.weigh.findings import (
    WeighFindings,
    agreement,
    concentration,
    doubtful,
    neighbor_counts,
    neighbor_mean,
)
from datassay.data.samples import wrong_labels
from datassay.report.page import Page
from datassay.report.tables import column, labels, standard_json

FILES = {"weights.parquet": "every sample's weight", "summary.json": "the figures above"}


def files(findings: WeighFindings, page: Page) -> dict[str, pa.Table | str]:
    """What stands beside the page."""
    return {"weights.parquet": weight_table(findings), "summary.json": _summary(findings, page)}


def weight_table(findings: WeighFindings) -> pa.Table:
    """Every sample's weight.

    Returns:
        One row a sample, in the samples' order: id, sample_weight (mean 1), local_variance, label
        (class index or target), then of the k − 1 nearest others: for classes class_name,
        neighbor_label (the most frequent) and neighbor_agreement (share with the sample's own
        label), for targets neighbor_mean; is_doubtful (see `doubtful`); true_label and source
        where they are known.
    """
    samples = findings.samples
    columns: dict[str, pa.Array] = {
        "id": column(samples.ids),
        "sample_weight": pa.array(findings.sample_weight),
        "local_variance": pa.array(findings.local.variance),
        "label": column(samples.y),
    }
    if samples.is_classification:
        columns["class_name"] = labels(samples, samples.y)
        columns["neighbor_label"] = labels(samples, neighbor_counts(findings).argmax(1))
        columns["neighbor_agreement"] = pa.array(agreement(findings))
    else:
        columns["neighbor_mean"] = column(neighbor_mean(findings).reshape(samples.y.shape))
    columns["is_doubtful"] = pa.array(doubtful(findings))
    if samples.true_y is not None:
        columns["true_label"] = labels(samples, samples.true_y)
    if samples.source is not None:
        columns["source"] = column(samples.source)
    return pa.table(columns)


def _summary(findings: WeighFindings, page: Page) -> str:
    samples, bad, wrong = findings.samples, doubtful(findings), wrong_labels(findings.samples)
    heavy = findings.heaviest
    gain, search = findings.gain, findings.search
    return standard_json({
        **page.head,
        "counts": {
            "train": len(samples),
            "validation": len(findings.validation),
            "heaviest": len(heavy),
            "doubtful": int(bad.sum()),
            "known_label_errors": None if wrong is None else int(wrong.sum()),
        },
        "method": findings.weights.method,
        "sample_weight_mean": 1.0,
        "settings": dict(findings.weights.details),
        "neighbors": {
            "k": findings.local.neighbors.index.shape[1],
            "space": findings.space,
            "search": findings.local.neighbors.search,
            "recall": findings.local.neighbors.recall,
        },
        "concentration": asdict(concentration(findings)),
        "doubtful_share": {"heaviest": float(bad[heavy].mean()), "all": float(bad.mean())},
        "metric": None if gain is None else gain.metric,
        "seeds": 0 if gain is None else gain.score.shape[0],
        "gain": None if gain is None else gain.to_table().to_pylist(),
        "search": None
        if search is None
        else {
            "n_neighbors": search.n_neighbors,
            "max_ratio": search.max_ratio,
            "score": search.score,
            "no_weights": search.uniform,
            "metric": search.metric,
            "trials": search.trials.to_pylist(),
        },
    })
