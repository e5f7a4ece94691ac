"""The files of a run: tables and summary."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from datassay.act.remove.removal_curve import RemovalCurve
from datassay.act.review.judged import FILE as REVIEW
from datassay.commands.run.figures import stand_ins
from datassay.commands.run.findings import Findings
from datassay.commands.run.labels import label_facts
from datassay.commands.run.redundancy import redundancy
from datassay.commands.run.scores import score_summary
from datassay.commands.run.suspects import FILE, suspects_file
from datassay.commands.run.table import attribution_table, score_table
from datassay.data.samples import wrong_labels
from datassay.report.page import Page
from datassay.report.tables import standard_json
from datassay.store.outputs import Part

FILES = {
    FILE: "the suspected labels with their columns, for a spreadsheet",
    "scores.parquet": "every sample's scores",
    "attribution.parquet": "effects on each validation sample",
    REVIEW: "what a review of the labels goes on from",
    "summary.json": "the figures above",
}
NO_EFFECTS = {"attribution.parquet": "no rows: effects on single predictions were left out"}
MOST_PAIRS = 100
CHECKED = ("ids", "linearised", "retrained", "pearson", "interval", "rank", "weights")


def files(findings: Findings, page: Page) -> dict[str, Part]:
    """What stands beside the page."""
    judged = findings.judged
    kept = {} if judged is None else {REVIEW: judged.write}
    return {
        **kept,
        FILE: suspects_file(findings),
        "scores.parquet": score_table(findings),
        "attribution.parquet": attribution_table(findings),
        "summary.json": _summary(findings, page),
    }


def _summary(findings: Findings, page: Page) -> str:
    further = {n: score_summary(one) for n, one in findings.scores.items() if one is not None}
    groups, whole, check = findings.groups, findings.whole_groups, findings.check
    return standard_json({
        **page.head,
        "origin": None if findings.origin is None else findings.origin.to_dict(),
        "counts": _counts(findings),
        "labels": label_facts(findings),
        "acts": None if findings.acts is None else asdict(findings.acts),
        "before": None if findings.before is None else asdict(findings.before),
        "data_issues": _data_issues(findings),
        "contests": [asdict(c) for c in findings.contests],
        "groups": {by: totals.to_table().to_pylist() for by, totals in groups.items()},
        "whole_groups": {by: totals.to_table().to_pylist() for by, totals in whole.items()},
        "pairs": _pairs(findings),
        "group_p_values": {by: totals.p_value for by, totals in groups.items()},
        "removal_curve": _removal_curve(findings.removal_curve),
        "check": None if check is None else {name: getattr(check, name) for name in CHECKED},
        "average_information": _average(findings),
        **({"scores": further} if further else {}),
    })


def _counts(findings: Findings) -> dict[str, object]:
    wrong, curve, n = wrong_labels(findings.samples), findings.removal_curve, len(findings.samples)
    redundant = None if curve is None else redundancy(curve)
    return {
        "train": n,
        "validation": 0 if findings.validation is None else len(findings.validation),
        "classes": findings.samples.n_classes,
        "suspected_label_errors": int(findings.issues.is_issue.sum()),
        "known_label_errors": None if wrong is None else int(wrong.sum()),
        "adversarial": None if findings.adversarial is None else int(findings.adversarial.sum()),
        "redundant": None if redundant is None else round(redundant.fraction * n),
    }


def _data_issues(findings: Findings) -> dict[str, object] | None:
    found = findings.data_issues
    if found is None:
        return None
    pairs = [asdict(pair) for pair in found.pairs[:MOST_PAIRS]]
    return {"issues": [asdict(one) for one in found.issues], "near_duplicates": pairs}


def _removal_curve(curve: RemovalCurve | None) -> dict[str, object] | None:
    if curve is None:
        return None
    n_seeds = curve.score.shape[2]
    mean = curve.score.mean(axis=2)
    spread = curve.score.std(axis=2, ddof=1) if n_seeds > 1 else np.full_like(mean, np.nan)
    return {
        "metric": curve.metric,
        "seeds": n_seeds,
        "fractions": curve.fractions,
        "rankings": [
            {"name": name, "mean": m, "std": s}
            for name, m, s in zip(curve.rankings, mean, spread, strict=True)
        ],
    }


def _pairs(findings: Findings) -> list[dict[str, object]]:
    """The pairs on the page's cards and some more: the largest interactions either way."""
    if findings.pairs is None:
        return []
    order = np.argsort(-np.abs(findings.pairs.interaction), kind="stable")[:MOST_PAIRS]
    return findings.pairs.to_table().take(order).to_pylist()


def _average(findings: Findings) -> dict[str, object] | None:
    average = findings.average
    if average is None:
        return None
    return {
        "fractions": average.fractions,
        "most_draws_a_sample": int(average.n_draws.max()),
        "rank_correlation": stand_ins(findings)[0],
    }
