"""The page of a purification."""

from __future__ import annotations

import math

import numpy as np

from datassay.commands.purify import figures
from datassay.commands.purify.advice import advice
from datassay.commands.purify.files import FILES
from datassay.commands.purify.findings import PurifyFindings, before_and_after, foreign
from datassay.commands.purify.gallery import gallery
from datassay.commands.purify.method import RULE_WORDS, notes
from datassay.report.page import Figure, Page, Pair, Row, Section, Table, Text
from datassay.report.wording import count, number, percent


def page(findings: PurifyFindings) -> Page:
    """Everything that the command says."""
    samples, ours = findings.samples, findings.purification
    gone, n = len(ours.removed), len(samples)
    sections = [_curve(findings), _rule(findings)]
    sections.append(Section("gallery", "Removed samples", "Removed samples", (gallery(findings),)))
    if samples.is_classification:
        classes = _class_table(findings)
        sections.append(Section("classes", "Classes", "Classes before and after", (classes,)))
    return Page(
        brand="datassay purify · which training samples to leave out",
        title=samples.name,
        lead=f"{count(gone, 'sample')} of {n:,} to leave out, {len(ours.keep):,} to keep",
        facts=findings.facts,
        warnings=findings.samples.warnings + findings.warnings,
        advice=advice(findings),
        sections=tuple(sections),
        method=notes(findings),
        files=FILES,
        columns=findings.samples.columns,
        answer=(
            f"Leave out {gone:,} of {count(n, 'sample')} (order {ours.order}, rule {ours.rule}, "
            f"{count(ours.steps, 'step')}).",
        ),
    )


def _curve(findings: PurifyFindings) -> Section:
    metric = findings.metric
    variance = Figure(
        "variance", figures.variance_figure(findings),
        "Variance of influence against samples removed, with the stopping point",
        title="Variance of influence",
    )  # fmt: skip
    score = Figure(
        "score", figures.score_figure(findings),
        f"Validation {metric} against samples removed, with the stopping point",
        title=f"Validation {metric}",
    )  # fmt: skip
    return Section("curve", "Against samples removed", "Against samples removed", (
        Text("After each step the model is refitted to what is left. Dotted lines were looked at "
             "beyond the stop; nothing there is removed."),
        _compared(findings),
        Pair((variance, score)),
    ))  # fmt: skip


def _compared(findings: PurifyFindings) -> Table:
    """Start, our stop and the rival's: one row a figure that is known."""
    stops = before_and_after(findings)
    named = {
        "removed": "samples removed",
        "variance": "V",
        "loss": "mean training loss",
        "validation": f"validation {findings.metric}",
        "majority": f"the same, {findings.majority} alone",
        "precision": "precision of removal",
        "recall": "recall of removal",
    }
    rows = [
        Row(name, tuple(_cell(key, stop[key]) for stop in stops))
        for key, name in named.items()
        if any(math.isfinite(stop[key]) for stop in stops)
    ]
    ours = figures.OURS.get(findings.purification.order, "by influence")
    columns = ("", "all samples", ours, "by loss, same rule")[: len(stops) + 1]
    return Table("Before and after", columns, tuple(rows), in_terminal=True)


def _cell(key: str, value: float) -> str:
    if math.isnan(value):
        return "–"
    if key == "removed":
        return f"{value:,}"
    return number(value) if key in {"variance", "loss"} else f"{value:.3f}"


def _rule(findings: PurifyFindings) -> Section:
    ours, truth = findings.purification, foreign(findings)
    text = RULE_WORDS[ours.rule]
    if ours.rule == "held_out":
        text += f" Here the threshold is {number(ours.threshold)} nats."
    drawn = Figure(
        "surprise", figures.surprise_figure(findings),
        "Surprise of each removed batch under the model refitted without it, and the threshold",
        title="Surprise of the removed labels",
    )  # fmt: skip
    if truth is not None and ours.steps:
        precision = Figure(
            "precision", figures.precision_figure(findings, truth),
            f"Share of {truth.name} in each removed batch",
            title=f"Share of {truth.name} among the removed",
        )  # fmt: skip
        drawn = Pair((drawn, precision))
    return Section("rule", "When to stop", "When to stop", (Text(text), drawn))


def _class_table(findings: PurifyFindings) -> Table:
    """Samples of each class that occurs, before and after."""
    before, lost = findings.lost
    rows = []
    for c in np.flatnonzero(before):
        share = percent(round(float(lost[c] / before[c]), 3))
        cells = (f"{before[c]:,}", f"{lost[c]:,}", f"{before[c] - lost[c]:,}", share)
        rows.append(Row(findings.samples.class_names[c], cells))
    columns = ("class", "before", "removed", "after", "share removed")
    return Table("Classes before and after", columns, tuple(rows), wraps=False)
