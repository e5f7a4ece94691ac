"""The page of a learning curve."""

from __future__ import annotations

import math

import numpy as np

from datassay.commands.complexity.curve.advice import advice, samples, span, vague
from datassay.commands.complexity.curve.figures import error_figure, score_figure
from datassay.commands.complexity.curve.files import FILES
from datassay.commands.complexity.curve.findings import AHEAD, CurveFindings
from datassay.commands.complexity.curve.method import notes
from datassay.report.page import Figure, Heading, Page, Row, Section, Table, Text
from datassay.report.wording import count, number, percent


def page(findings: CurveFindings) -> Page:
    """Everything that the command says of a learning curve."""
    advices = advice(findings)
    return Page(
        brand="datassay complexity · how many samples this model needs",
        title=findings.samples.name,
        lead=_lead(findings),
        facts=findings.facts,
        warnings=findings.samples.warnings + findings.warnings,
        advice=advices,
        sections=(
            _curve(findings),
            Section("ahead", "More samples", "More samples", (
                _needed(findings),
                Heading("What to expect of more samples"),
                _ahead(findings),
            )),
            Section("measured", "Measured", "Measured", (_measured(findings),)),
        ),
        method=notes(findings),
        files=FILES,
        columns=findings.samples.columns,
        answer=tuple(f"{one.headline}." for one in advices),
    )  # fmt: skip


def _lead(findings: CurveFindings) -> str:
    """The answer for the highest score asked about."""
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
        f"({findings.interval}: {span(one)}); there are {findings.n:,}"
    )


def _curve(findings: CurveFindings) -> Section:
    metric, fits = findings.metric, count(findings.repeats, "fit")
    score = f"{metric} against training samples: every fit, extrapolation with its interval"
    error = "Error against training samples on logarithmic axes, with the power law"
    title = "The error on logarithmic axes"
    return Section("curve", "The curve", "The curve", (
        Text(f"Dots are {fits} a size, diamonds their mean, the line and its band what the laws "
             f"make of them. To the right of the dotted line, at {findings.n:,} samples, "
             "everything is extrapolated. The line begins at the smallest size that all draws "
             "use."),
        Figure("score", score_figure(findings), score),
        Text(f"Dashed: the {metric} wanted; the bar on it is the {findings.interval} of the "
             "samples needed.", note=True),
        Figure("error", error_figure(findings), error, title=title),
        Text("A power law without a floor is a straight line here; a floor bends it to the "
             "horizontal.", note=True),
    ))  # fmt: skip


def _needed(findings: CurveFindings) -> Table:
    """What each wanted score needs: median, interval, share of draws that never reach it."""
    rows = []
    for one in findings.needed:
        median = samples(one.median) if math.isfinite(one.median) else "not in most draws"
        never = f"{percent(round(1 - one.reached_by, 3))} of draws"
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
