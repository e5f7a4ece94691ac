"""The page of a sampling."""

from __future__ import annotations

import numpy as np

from datassay.commands.sample import figures
from datassay.commands.sample.advice import advice
from datassay.commands.sample.files import FILES
from datassay.commands.sample.findings import SamplingFindings, verdicts
from datassay.commands.sample.method import notes
from datassay.report.page import Figure, Page, Pair, Row, Section, Table, Text
from datassay.report.wording import count, number, percent

LEARNT_FROM = "of each network, by the points it learnt from"


def page(findings: SamplingFindings) -> Page:
    """Everything that the command says."""
    sample = findings.sample
    sections = [_where(findings), _mixture(findings)]
    if findings.comparison is not None:
        sections.append(_help(findings))
    if findings.bounds:
        sections.append(_bound(findings))
    points = f"{count(findings.n_new, 'new point')} beside {len(sample.index):,} initial ones"
    return Page(
        brand="datassay sample · where more points are worth most",
        title=findings.name,
        lead=f"{points}, where the function changes most",
        facts=findings.facts,
        warnings=findings.warnings,
        advice=advice(findings),
        sections=tuple(sections),
        method=notes(findings),
        files=FILES,
        answer=(
            f"{points} ({sample.derivatives} derivatives to order {sample.order}, acceptance "
            f"{sample.acceptance:.3f}).",
        ),
    )


def _where(findings: SamplingFindings) -> Section:
    if len(findings.inputs) > 1:
        others = "; the others are wherever the points of a cell have them"
        note = (
            f"Both maps are over the first two inputs, {findings.inputs[0]} and "
            f"{findings.inputs[1]}{others if len(findings.inputs) > 2 else ''}. Blank cells hold "
            "no point."
        )
        drawn = Pair((
            Figure("index", figures.index_map(findings),
                   "Largest Taylor index of the initial points over two inputs",
                   title="Largest Taylor index Df"),
            Figure("new", figures.new_map(findings),
                   "Number of new points over the same two inputs", title="New points"),
        ))  # fmt: skip
    else:
        coarse = " Lines join the initial points: --compare 0 asks the function for no more."
        note = (
            "New points stand on the function and, as strokes, on the axis. The shaded curve is "
            "the Taylor index Df, by which they were drawn."
            f"{coarse if findings.curve is None else ''}"
        )
        text = "The function, its Taylor index, and the initial and new points"
        drawn = Figure("function", figures.function_figure(findings), text)
    return Section("where", "Where it changes", "Where it changes", (Text(note), drawn))


def _mixture(findings: SamplingFindings) -> Section:
    """The components of the density, largest first: share, mean ± standard deviation."""
    density, rows = findings.sample.density, []
    for place, k in enumerate(np.argsort(-density.weight, kind="stable"), 1):
        deviation = np.sqrt(np.diag(density.covariance[k]))
        cells = [_interval(pair) for pair in zip(density.mean[k], deviation, strict=True)]
        rows.append(Row(str(place), (f"{100 * density.weight[k]:.1f} %", *cells)))
    columns = ("component", "share", *findings.inputs)
    blocks = (Text(_mixture_note(findings)), Table("Density", columns, tuple(rows)))
    return Section("mixture", "Density", "Density of the new points", blocks)


def _mixture_note(findings: SamplingFindings) -> str:
    sample = findings.sample
    n, fitted = len(sample.index), sample.density.n_fitted
    who = f"All {n:,} initial points have a part in it."
    if fitted < n:
        who = (
            f"{fitted:,} of {count(n, 'initial point')} have a part in it: the others have less "
            "than a hundredth of the largest Df."
        )
    return (
        f"{who} Of {sample.tries:,} draws {percent(round(sample.acceptance, 3))} lay in the "
        "domain. Means are ± standard deviations, before the cut to the domain."
    )


def _help(findings: SamplingFindings) -> Section:
    comparison = findings.comparison
    assert comparison is not None
    rows = []
    for verdict in reversed(verdicts(comparison)):
        change, half = (100 * value for value in verdict.difference)
        cells = (_interval(verdict.uniform), _interval(verdict.taylor))
        rows.append(Row(verdict.error, (*cells, f"{change:+.1f} ± {half:.1f} %".replace("-", "−"))))
    runs = count(comparison.largest.shape[1], "run")
    return Section("help", "Does it help here", "Does it help here", (
        Text("Small networks, trained on these points and on as many of which the new ones are "
             f"uniform instead, {runs} each. The change is measured run by run."),
        Table("Errors", ("error", "uniform", "Taylor-based", "change"), tuple(rows),
              in_terminal=True),
        Pair((
            Figure("largest", figures.error_figure(comparison, "largest"),
                   f"Largest error {LEARNT_FROM}", title="Largest error"),
            Figure("root_mean_square", figures.error_figure(comparison, "root_mean_square"),
                   f"Mean error {LEARNT_FROM}", title="Root mean square error"),
        )),
        Text("Grey: one network; a line joins the two of one run. Coloured: the mean and its 95 % "
             "interval.", note=True),
    ))  # fmt: skip


def _interval(pair: tuple[float, float]) -> str:
    return f"{number(float(pair[0]))} ± {number(float(pair[1]))}"


def _bound(findings: SamplingFindings) -> Section:
    """The bound before and after, at both Lipschitz constants, and the mean gain of one point."""
    rows = []
    for bounds in findings.bounds:
        totals = (bounds.initial.total, bounds.uniform.total, bounds.taylor.total)
        k = number(bounds.initial.lipschitz)
        rows.append(Row(f"bound, K = {k}", tuple(number(total) for total in totals)))
        gains = (float(np.mean(g)) for g in (bounds.gain_uniform, bounds.gain_taylor))
        rows.append(Row("lowered by a point alone, mean", ("–", *(number(g) for g in gains))))
    columns = ("", "initial points", "and uniform ones", "and Taylor-based ones")
    return Section("bound", "The bound", "The bound behind it", (
        Text("Why more points where the function is steep? A model that is right at the points can "
             "be wrong between them by at most its own slope and the function's, times the "
             "distance. The figures show the function's share, K = 0; the table also has K at the "
             "function's largest slope."),
        Table("Bound", columns, tuple(rows)),
        Pair((
            Figure("bound", figures.bound_figure(findings),
                   "Generalisation bound of each cell: initial, uniform and Taylor-based points",
                   title="Bound of each cell"),
            Figure("gain", figures.gain_figure(findings),
                   "How much each added point lowers the bound, against its place",
                   title="What each added point takes away"),
        )),
    ))  # fmt: skip
