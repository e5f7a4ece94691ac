"""The page of a learning curve: its tables; `text/curve.md.j2` says the rest."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from datassay.commands.complexity.curve.figures import error_figure, score_figure
from datassay.commands.complexity.curve.files import FILES
from datassay.commands.complexity.curve.findings import AHEAD, CHECKED, CurveFindings
from datassay.complexity.needed_samples import NeededSamples
from datassay.report.advice import most_urgent_first
from datassay.report.compose import compose
from datassay.report.page import Page, Row, Table
from datassay.report.wording import number, share

# From this share of the interval's width on, the validation samples are what limits it.
MOSTLY_VALIDATION = 0.5
# Below this share of the error that twice the samples remove they are hardly worth it.
SMALL_GAIN = 0.1


def page(findings: CurveFindings) -> Page:
    """Everything that the command says of a learning curve."""
    numbers = {
        "findings": findings,
        "samples": samples,
        "span": span,
        "vague": lambda one: vague(findings, one),
        "twice": _twice(findings),
        "checked": CHECKED,
        "mostly_validation": MOSTLY_VALIDATION,
    }
    blocks = {
        "score": score_figure(findings),
        "error": error_figure(findings),
        "needed": _needed(findings),
        "expected": _ahead(findings),
        "measured": _measured(findings),
    }
    page = compose(
        "curve",
        blocks,
        numbers,
        facts=findings.facts,
        warnings=findings.samples.warnings + findings.warnings,
        files=FILES,
        columns=findings.samples.columns,
    )
    advice = most_urgent_first(page.advice)
    return replace(page, advice=advice, answer=tuple(f"{one.headline}." for one in advice))


def samples(n: float) -> str:
    """A number of samples that is no more exact than it can be: "2,300", for infinity "never"."""
    if not math.isfinite(n):
        return "never"
    if n >= 1e9:
        return "over a billion"
    digits = max(0, math.floor(math.log10(max(n, 1))) - 1)
    return f"{max(1, round(n / 10**digits)) * 10**digits:,}"


def span(one: NeededSamples) -> str:
    """The interval in words: "1,500 to 8,000", or without an upper end "at least 1,500"."""
    if not math.isfinite(one.low):
        return "no number of samples"
    if not math.isfinite(one.high):
        return f"at least {samples(one.low)}"
    return f"{samples(one.low)} to {samples(one.high)}"


def vague(findings: CurveFindings, one: NeededSamples) -> bool:
    """No upper end, and a median beyond what intervals were checked to: it says too much."""
    return math.isinf(one.high) and one.median > CHECKED * findings.n


def _twice(findings: CurveFindings) -> dict[str, Any]:
    """What twice the samples bring: the interval, in points or in R², and whether it is little."""
    n = np.array([1.0, 2.0]) * findings.n
    errors = findings.extrapolation.draws.errors(n)
    gain = np.quantile(errors[:, 0] - errors[:, 1], [0.05, 0.5, 0.95])
    in_points = findings.metric == "accuracy"
    texts = [f"{100 * g:.1f}" if in_points else f"{g:.3f}" for g in gain]
    return dict(zip(("low", "middle", "high"), texts, strict=True)) | {
        "unit": "points of accuracy" if in_points else "of R²",
        "is_small": gain[1] < SMALL_GAIN * np.median(errors[:, 0]),
    }


def _needed(findings: CurveFindings) -> Table:
    """What each wanted score needs: median, interval, share of draws that never reach it."""
    rows = []
    for one in findings.needed:
        median = samples(one.median) if math.isfinite(one.median) else "not in most draws"
        never = f"{share(1 - one.reached_by)} of draws"
        rows.append(Row(f"{one.score:g}", (median, span(one), never)))
    columns = (findings.metric, "samples needed", findings.interval, "never reached in")
    return Table("Samples needed", columns, tuple(rows), in_terminal=True)


def _ahead(findings: CurveFindings) -> Table:
    """The score expected of once to eight times the samples, and of infinitely many."""
    n = np.array(AHEAD, np.float64) * findings.n
    scores = [*findings.extrapolation.score(n).T, findings.extrapolation.ceiling]
    names = [*(f"{x:,.0f}" for x in n), "as many as you like"]
    rows = tuple(
        Row(name, (number(median), f"{number(low)} to {number(high)}"))
        for name, (low, median, high) in zip(names, scores, strict=True)
    )
    columns = ("training samples", f"{findings.metric} expected", findings.interval)
    return Table("Expected scores", columns, rows, in_terminal=True)


def _measured(findings: CurveFindings) -> Table:
    """Mean score of each size, standard deviation between fits, and the law of the mean."""
    curve = findings.extrapolation.curve
    law = 1 - findings.extrapolation.law.errors(curve.sizes.astype(np.float64))[0]
    rows = tuple(
        Row(f"{n:,}", (number(float(s.mean())), number(float(s.std(ddof=1))), number(float(p))))
        for n, s, p in zip(curve.sizes, curve.score, law, strict=True)
    )
    columns = ("training samples", f"mean {findings.metric}", "± between fits",
               "power law of the mean")  # fmt: skip
    return Table("Measured scores", columns, rows)
