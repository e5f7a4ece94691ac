"""The files of a run: tables and summary."""

from dataclasses import asdict

import numpy as np

from datassay.act.remove.removal_curve import RemovalCurve
from datassay.act.review.judged import FILE as REVIEW
from datassay.commands.run.figures import stand_ins
from datassay.commands.run.findings import Findings
from datassay.commands.run.gate.quantities import quantities
from datassay.commands.run.labels import label_facts
from datassay.commands.run.suspects import FILE, suspects_file
from datassay.commands.run.table import attribution_table, score_summary, score_table
from datassay.commands.run.verdict import verdict
from datassay.data.samples import wrong_labels
from datassay.optional import map_optional
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
    """Return the files written with the page, by name."""
    judged = findings.judged
    review_file = {}
    if judged is not None:
        review_file = {REVIEW: judged.write}
    return {
        **review_file,
        FILE: suspects_file(findings),
        "scores.parquet": score_table(findings),
        "attribution.parquet": attribution_table(findings),
        "summary.json": standard_json(summary(findings, page)),
    }


def summary(findings: Findings, page: Page) -> dict[str, object]:
    """Return the content of summary.json; `standard_json` turns arrays into plain values."""
    f = findings
    data_issues = findings.data_issues
    pairs = findings.pairs
    summaries = {name: score_summary(s) for name, s in f.scores.items() if s is not None}
    near_duplicates = []
    if data_issues is not None:
        near_duplicates = [asdict(pair) for pair in data_issues.pairs[:MOST_PAIRS]]
    if pairs is not None:  # the largest interactions either way
        order = np.argsort(-np.abs(pairs.interaction), kind="stable")[:MOST_PAIRS]
        pairs = pairs.to_table().take(order).to_pylist()
    return {
        **page.head,
        "origin": f.origin and f.origin.to_dict(),
        "pending": f.pending,
        "counts": _count_samples(f),
        "labels": label_facts(f),
        "checks": quantities(f),
        "outcomes": [asdict(outcome) for outcome in f.outcomes],
        "actions": f.acts and asdict(f.acts),
        "before": f.before and asdict(f.before),
        "data_issues": data_issues
        and {
            "issues": [asdict(issue) for issue in data_issues.issues],
            "near_duplicates": near_duplicates,
        },
        "groups": {kind: totals.to_table().to_pylist() for kind, totals in f.groups.items()},
        "whole_groups": {kind: g.to_table().to_pylist() for kind, g in f.whole_groups.items()},
        "pairs": pairs or [],
        "group_p_values": {kind: totals.p_value for kind, totals in f.groups.items()},
        "removal_curve": _summarize_curve(f.removal_curve),
        "check": f.check and {name: getattr(f.check, name) for name in CHECKED},
        "average_information": f.average
        and {
            "fractions": f.average.fractions,
            "most_draws_a_sample": int(f.average.n_draws.max()),
            "rank_correlation": stand_ins(f)[0],
        },
        **({"scores": summaries} if summaries else {}),
    }


def _count_samples(findings: Findings) -> dict[str, object]:
    """Return name → number for summary.json: samples, classes, suspects, labels to review."""
    is_wrong = wrong_labels(findings.samples)
    n = len(findings.samples)
    run_verdict = verdict(findings)
    return {
        "train": n,
        "validation": len(findings.validation or ()),
        "classes": findings.samples.n_classes,
        "suspected_label_errors": run_verdict.labels.n_flagged,
        "to_review": run_verdict.labels.n_review,
        "wrong_at_least": run_verdict.labels.low,
        "wrong_at_most": run_verdict.labels.high,
        "known_label_errors": map_optional(np.count_nonzero, is_wrong),
        "adversarial": map_optional(np.count_nonzero, findings.adversarial),
        "redundant": run_verdict.n_droppable,
    }


def _summarize_curve(curve: RemovalCurve | None) -> dict[str, object] | None:
    """Return each ranking's mean score and deviation over seeds at each kept share, or None."""
    if curve is None:
        return None
    n_seeds = curve.score.shape[2]
    mean = curve.score.mean(axis=2)
    if n_seeds > 1:
        spread = curve.score.std(axis=2, ddof=1)
    else:
        spread = np.full_like(mean, np.nan)
    rows = zip(curve.rankings, mean, spread, strict=True)
    rankings = [{"name": name, "mean": m, "std": s} for name, m, s in rows]
    header = {"metric": curve.metric, "seeds": n_seeds, "fractions": curve.fractions}
    return {**header, "rankings": rankings}
