"""The page of an explanation."""

from __future__ import annotations

import numpy as np

from datassay.commands.explain import figures
from datassay.commands.explain.advice import advice
from datassay.commands.explain.files import FILES
from datassay.commands.explain.findings import ExplainFindings
from datassay.commands.explain.gallery import gallery, predicted_text
from datassay.commands.explain.method import notes
from datassay.report.page import Block, Figure, Page, Row, Section, Table, Text
from datassay.report.predictions import effect_words, picker
from datassay.report.wording import count, label_text, number

N_ROWS = 20
INTERNALS = ("Data SHA-256", "Seed")


def page(findings: ExplainFindings) -> Page:
    """Everything that the command says."""
    pieces, cards = advice(findings), gallery(findings)
    return Page(
        brand="datassay explain · which training samples made the network say this",
        title=findings.samples.name,
        lead=_lead(findings),
        facts=findings.facts,
        warnings=findings.samples.warnings + findings.warnings,
        advice=pieces,
        sections=(
            _why(findings, cards.kind),
            *_labels(findings),
            Section("gallery", "Gallery", "The samples", (cards,)),
        ),
        method=notes(findings),
        files=FILES,
        columns=findings.samples.columns,
        internals=INTERNALS,
        answer=tuple(f"{one.headline}{_named(one.ids)}." for one in pieces),
    )


def _named(ids: tuple[str, ...]) -> str:
    return f": {', '.join(ids[:5])}" if ids else ""


def _lead(findings: ExplainFindings) -> str:
    queries = count(len(findings.queries), findings.predictions.queried)
    n = count(len(findings.ids), "training sample")
    if findings.kind == "training":
        return f"{n}, explained by each other"
    return f"{queries} explained by {n}"


def _why(findings: ExplainFindings, style: str) -> Section:
    told = findings.predictions
    what, _, _ = effect_words(told)
    own = " What a sample does to itself is not listed." if findings.kind == "training" else ""
    text = (
        f"Pick a {told.queried}: the training samples below it changed {what} most. Each effect is "
        "its value with the sample minus its value without, to first order, at the trained "
        f"weights.{own}"
    )
    title = "Which training samples made the network say this?"
    return Section("why", "Why this prediction", title, (Text(text), *picker(told, style)))


def _labels(findings: ExplainFindings) -> tuple[Section, ...]:
    own = findings.self_influence
    if not np.isfinite(own).all():
        return ()
    what = "labels" if findings.samples.is_classification else "targets"
    n_rows = min(N_ROWS, len(own))
    text = (
        "Self-influence is how much a sample's presence lowers its own loss: large where nothing "
        f"else in the data supports its {what[:-1]}. Wrong {what} and rare samples come first."
    )
    described = "Histogram of self-influence, the samples of the table in another colour"
    blocks: tuple[Block, ...] = (
        Text(text),
        _table(findings, n_rows),
        Figure("own", figures.self_influence_figure(findings, n_rows), described),
        Text("Below a millionth of the largest, samples are counted in the first bar.", note=True),
    )
    return (Section("labels", "Labels", f"Look at these {what} first", blocks),)


def _table(findings: ExplainFindings, n_rows: int) -> Table:
    samples, own = findings.samples, findings.self_influence
    middle = float(np.median(own))
    rows = []
    for i in findings.first[:n_rows]:
        times = number(float(own[i]) / middle) if middle > 0 else "–"
        is_shown = i < len(samples)
        cells = (
            label_text(samples.class_names, samples.y[i]) if is_shown else "not in DATA",
            predicted_text(findings, int(i)) if is_shown else "",
            number(float(own[i])),
            times,
            number(float(findings.attribution.total[i])).replace("-", "−"),
        )
        rows.append(Row(str(findings.ids[i]), cells))
    columns = ("id", "given", "predicted", "self-influence", "times the median", "total effect")
    note = f"The first {n_rows} of {len(findings.ids):,}; samples.parquet holds all."
    return Table("Largest self-influence", columns, tuple(rows), note=note, in_terminal=True)
