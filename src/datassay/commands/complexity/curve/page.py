"""The page of a learning curve."""

from __future__ import annotations

import math

import numpy as np

from datassay.commands.complexity.curve.advice import curve_advice, samples, span, vague
from datassay.commands.complexity.curve.figures import curve_figures
from datassay.commands.complexity.curve.findings import AHEAD, CurveFindings
from datassay.commands.complexity.curve.method import curve_notes
from datassay.report.old_html import advice_cards, render
from datassay.report.page import Row
from datassay.report.wording import count, number, percent


def render_curve_page(findings: CurveFindings) -> str:
    """The curve as one self-contained HTML page; see `html.render` for what it promises.

    Args:
        findings: one curve.

    Returns:
        HTML.
    """
    return render("curve.html", ("figures.js",), _context(findings), curve_figures(findings))


def _context(findings: CurveFindings) -> dict[str, object]:
    curve = findings.found.curve
    sections = [
        ("next", "What to do next"),
        ("curve", "The curve"),
        ("ahead", "More samples"),
        ("measured", "Measured"),
        ("method", "Method"),
    ]
    return {
        "brand": "datassay complexity · how many samples this model needs",
        "title": findings.samples.name,
        "lead": lead(findings),
        "facts": findings.facts,
        "warnings": findings.warnings,
        "advice": advice_cards(curve_advice(findings)),
        "gallery_view": "all",
        "sections": sections,
        "metric": findings.metric,
        "level": f"{100 * findings.found.level:.0f} %",
        "n": f"{findings.n:,}",
        "fits": count(curve.errors.shape[1], "fit"),
        "needed_columns": needed_columns(findings),
        "needed_rows": needed_rows(findings),
        "ahead_columns": ahead_columns(findings),
        "ahead_rows": ahead_rows(findings),
        "size_columns": ["training samples", f"mean {findings.metric}", "± between fits",
                         "power law of the mean"],
        "size_rows": size_rows(findings),
        "method": curve_notes(findings),
    }  # fmt: skip


def lead(findings: CurveFindings) -> str:
    """The answer in one sentence.

    Args:
        findings: one curve.

    Returns:
        Plain text, about the highest score asked about.
    """
    one = findings.needed[-1]
    wanted = f"{findings.metric} {one.score:g}"
    if not math.isfinite(one.median):
        return (
            f"in {percent(round(1 - one.reached_by, 3))} of the draws {findings.model} never "
            f"reaches {wanted}, with any number of samples"
        )
    if vague(findings, one):
        return (
            f"{findings.model} needs {span(one)} samples for {wanted}, and may never reach it; "
            f"there are {findings.n:,}"
        )
    return (
        f"{findings.model} needs about {samples(one.median)} samples for {wanted} "
        f"({100 * one.level:.0f} % interval: {span(one)}); there are {findings.n:,}"
    )


def needed_columns(findings: CurveFindings) -> list[str]:
    """Headings of `needed_rows`.

    Args:
        findings: one curve.

    Returns:
        The first is of the row names.
    """
    level = f"{100 * findings.found.level:.0f} % interval"
    return [findings.metric, "samples needed", level, "never reached in"]


def needed_rows(findings: CurveFindings) -> list[Row]:
    """What each wanted score needs.

    Args:
        findings: one curve.

    Returns:
        Median, interval, and the share of draws that never reach it.
    """
    rows = []
    for one in findings.needed:
        median = samples(one.median) if math.isfinite(one.median) else "not in most draws"
        never = f"{percent(round(1 - one.reached_by, 3))} of draws"
        rows.append(Row(f"{one.score:g}", (median, span(one), never)))
    return rows


def ahead_columns(findings: CurveFindings) -> list[str]:
    """Headings of `ahead_rows`.

    Args:
        findings: one curve.

    Returns:
        The first is of the row names.
    """
    level = f"{100 * findings.found.level:.0f} % interval"
    return ["training samples", f"{findings.metric} expected", level]


def ahead_rows(findings: CurveFindings) -> list[Row]:
    """The score expected of once to eight times the samples, and of infinitely many.

    Args:
        findings: one curve.

    Returns:
        Median and interval.
    """
    n = np.array(AHEAD, np.float64) * findings.n
    found = findings.found.score(n)
    rows = [
        Row(f"{x:,.0f}", (number(one[1]), f"{number(one[0])} to {number(one[2])}"))
        for x, one in zip(n, found.T, strict=True)
    ]
    low, median, high = findings.found.ceiling
    return [*rows, Row("as many as you like", (number(median), f"{number(low)} to "
                                                    f"{number(high)}"))]  # fmt: skip


def size_rows(findings: CurveFindings) -> list[Row]:
    """What was measured at each size.

    Args:
        findings: one curve.

    Returns:
        Mean score, standard deviation between fits, and the law of the mean.
    """
    curve = findings.found.curve
    law = 1 - findings.found.law.errors(curve.sizes.astype(np.float64))[0]
    return [
        Row(f"{n:,}", (number(float(s.mean())), number(float(s.std(ddof=1))), number(float(p))))
        for n, s, p in zip(curve.sizes, curve.score, law, strict=True)
    ]
