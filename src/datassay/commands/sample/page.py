"""The page of a sampling."""

from __future__ import annotations

import numpy as np

from datassay.commands.sample.advice import sampling_advice
from datassay.commands.sample.figures import sampling_figures
from datassay.commands.sample.findings import SamplingFindings, verdicts
from datassay.commands.sample.method import sampling_notes
from datassay.report.old_html import advice_cards, render
from datassay.report.page import Row
from datassay.report.wording import count, number, percent

ERROR_COLUMNS = ["error", "uniform", "Taylor-based", "change"]
BOUND_COLUMNS = ["", "initial points", "and uniform ones", "and Taylor-based ones"]


def render_sampling_page(findings: SamplingFindings) -> str:
    """The sampling as one self-contained HTML page; see `html.render` for what it promises.

    Args:
        findings: one sampling.

    Returns:
        HTML.
    """
    figures = sampling_figures(findings)
    return render("sampling.html", ("figures.js",), _context(findings), figures)


def _context(findings: SamplingFindings) -> dict[str, object]:
    found = findings.found
    new = int(found.is_new.sum())
    sections = [("next", "What to do next"), ("where", "Where it changes"), ("mixture", "Density")]
    sections += [("help", "Does it help here")] * (findings.comparison is not None)
    sections += [("bound", "The bound")] * bool(findings.bounds)
    return {
        "brand": "datassay sample · where more points are worth most",
        "title": findings.name,
        "lead": f"{count(new, 'new point')} beside {len(found.index):,} initial ones, where the "
        "function changes most",
        "facts": findings.facts,
        "warnings": findings.warnings,
        "advice": advice_cards(sampling_advice(findings)),
        "gallery_view": "all",
        "sections": [*sections, ("method", "Method")],
        "inputs": findings.inputs,
        "blank": len(findings.inputs) > 1,
        "coarse": findings.curve is None,
        "mixture_columns": mixture_columns(findings),
        "mixture_rows": mixture_rows(findings),
        "mixture_note": _mixture_note(findings),
        "runs": 0 if findings.comparison is None else findings.comparison.largest.shape[1],
        "error_columns": ERROR_COLUMNS,
        "error_rows": error_rows(findings),
        "bound_columns": BOUND_COLUMNS,
        "bound_rows": bound_rows(findings),
        "method": sampling_notes(findings),
    }


def error_rows(findings: SamplingFindings) -> list[Row]:
    """Errors under both designs.

    Args:
        findings: one sampling.

    Returns:
        Mean and half the 95 % interval of each, and the change in percent; empty without a
        comparison.
    """
    if findings.comparison is None:
        return []
    return [
        Row(
            verdict.error,
            (
                f"{number(verdict.uniform[0])} ± {number(verdict.uniform[1])}",
                f"{number(verdict.taylor[0])} ± {number(verdict.taylor[1])}",
                f"{100 * verdict.difference[0]:+.1f} ± {100 * verdict.difference[1]:.1f} %".replace(
                    "-", "−"
                ),
            ),
        )
        for verdict in reversed(verdicts(findings.comparison))
    ]


def mixture_columns(findings: SamplingFindings) -> list[str]:
    """Headings of `mixture_rows`.

    Args:
        findings: one sampling.

    Returns:
        The first is of the row names.
    """
    return ["component", "share", *findings.inputs]


def mixture_rows(findings: SamplingFindings) -> list[Row]:
    """The components of the density, largest first.

    Args:
        findings: one sampling.

    Returns:
        Share, and mean ± standard deviation of each input.
    """
    density = findings.found.density
    rows = []
    for place, k in enumerate(np.argsort(-density.weight, kind="stable"), 1):
        deviation = np.sqrt(np.diag(density.covariance[k]))
        cells = [
            f"{number(float(mean))} ± {number(float(s))}"
            for mean, s in zip(density.mean[k], deviation, strict=True)
        ]
        rows.append(Row(str(place), (f"{100 * density.weight[k]:.1f} %", *cells)))
    return rows


def bound_rows(findings: SamplingFindings) -> list[Row]:
    """The bound before and after, at both Lipschitz constants.

    Args:
        findings: one sampling.

    Returns:
        Totals, and the mean gain of one point; empty without bounds.
    """
    rows = []
    for bounds in findings.bounds:
        k = number(bounds.initial.lipschitz)
        totals = (bounds.initial.total, bounds.uniform.total, bounds.taylor.total)
        rows.append(Row(f"bound, K = {k}", tuple(number(v) for v in totals)))
        gains = (bounds.gain_uniform, bounds.gain_taylor)
        cells = ("–", *(number(float(np.mean(g))) for g in gains))
        rows.append(Row("lowered by a point alone, mean", cells))
    return rows


def _mixture_note(findings: SamplingFindings) -> str:
    found = findings.found
    n, fitted = len(found.index), found.density.n_fitted
    who = f"All {n:,} initial points have a part in it."
    if fitted < n:
        who = (
            f"{fitted:,} of {count(n, 'initial point')} have a part in it: the others have less "
            "than a hundredth of the largest Df."
        )
    return (
        f"{who} Of {found.tries:,} draws {percent(round(found.acceptance, 3))} lay in the domain. "
        "Means are ± standard deviations, before the cut to the domain."
    )
