"""The run in figures, as plain JSON for other programs."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from datassay.commands.run.advice import advice
from datassay.commands.run.figures.subsets import stand_ins
from datassay.commands.run.findings import Findings
from datassay.commands.run.redundancy import redundancy
from datassay.data.samples import wrong_labels
from datassay.report.tables import standard_json

MOST_PAIRS = 100


def summary_json(findings: Findings) -> str:
    """Facts, counts, advice, contests, removal curve and warnings as JSON text.

    Args:
        findings: one run's results.

    Returns:
        Standard JSON: what is not a finite number is null, never NaN or Infinity.
    """
    summary = {
        "facts": findings.facts,
        "warnings": findings.warnings,
        "counts": _counts(findings),
        "advice": [asdict(a) for a in advice(findings)],
        "contests": [asdict(c) for c in findings.contests],
        "groups": {by: found.to_table().to_pylist() for by, found in findings.groups.items()},
        "whole_groups": {
            by: found.to_table().to_pylist() for by, found in findings.whole_groups.items()
        },
        "pairs": _pairs(findings),
        "group_p_values": {by: found.p_value for by, found in findings.groups.items()},
        "removal_curve": _removal_curve(findings),
        "check": _check(findings),
        "average_information": _average(findings),
    }
    return standard_json(summary)


def _counts(findings: Findings) -> dict[str, object]:
    wrong = wrong_labels(findings.samples)
    curve = findings.removal_curve
    found = None if curve is None else redundancy(curve)
    n = len(findings.samples)
    return {
        "train": n,
        "validation": 0 if findings.validation is None else len(findings.validation),
        "classes": findings.samples.n_classes,
        "suspected_label_errors": int(findings.issues.is_issue.sum()),
        "known_label_errors": None if wrong is None else int(wrong.sum()),
        "adversarial": None if findings.adversarial is None else int(findings.adversarial.sum()),
        "redundant": None if found is None else round(found.fraction * n),
    }


def _removal_curve(findings: Findings) -> dict[str, object] | None:
    curve = findings.removal_curve
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


def _check(findings: Findings) -> dict[str, object] | None:
    found = findings.check
    if found is None:
        return None
    names = ("ids", "linearised", "retrained", "pearson", "interval", "rank", "weights")
    return {name: getattr(found, name) for name in names}


def _average(findings: Findings) -> dict[str, object] | None:
    found = findings.average
    if found is None:
        return None
    draws = int(found.n_draws.max())
    return {
        "fractions": found.fractions,
        "most_draws_a_sample": draws,
        "rank_correlation": stand_ins(findings)[0],
    }
