"""The page of a purification: its figures, tables and cards; `text/purify.md.j2` says the rest."""

from __future__ import annotations

import math

import numpy as np

from datassay.commands.purify import figures
from datassay.commands.purify.files import FILES
from datassay.commands.purify.job import Foreign, PurifyFindings, before_and_after, foreign
from datassay.report.advice import N_CHECK_FIRST
from datassay.report.compose import compose
from datassay.report.drawing import MAX_CARDS, draw, sample_texts
from datassay.report.page import Card, Gallery, Page, Row, Table, View
from datassay.report.wording import label_text, number, share
from datassay.stats import interval

# A class that loses this many times the share that the whole set loses is worth a look.
UNEVEN = 2.0


def page(findings: PurifyFindings) -> Page:
    """Everything that the command says."""
    samples, ours, truth = findings.samples, findings.purification, foreign(findings)
    start, stop, *_ = before_and_after(findings)
    edges, threshold = ours.trace.removed, ours.threshold
    numbers = {
        "findings": findings,
        "truth": truth,
        "start": start,
        "stop": stop,
        "gain": stop["validation"] - start["validation"],
        "error": _standard_error(findings, start["validation"]),
        "hits": 0 if truth is None else int(truth.mask[ours.removed].sum()),
        "n_foreign": 0 if truth is None else int(truth.mask.sum()),
        "base_rate": math.nan if truth is None else float(truth.mask.mean()),
        "first_surprise": float(np.nanmean(ours.trace.surprise[1:4])) if len(edges) > 1 else 0.0,
        "worst": _worst_class(findings),
        "contest": _contest(findings, truth),
        "batch": int(edges[1]) if len(edges) > 1 else max(1, len(samples) // 100),
        "times": 2 if threshold < math.log(3 * max(1, samples.n_classes)) else 4,
    }
    blocks = {
        "before": _compared(findings),
        "variance": figures.variance_figure(findings),
        "score": figures.score_figure(findings),
        "surprise": figures.surprise_figure(findings),
        "precision": None,
        "gallery": gallery(findings),
        "classes": _class_table(findings) if samples.is_classification else None,
    }
    if truth is not None and ours.steps:
        blocks["precision"] = figures.precision_figure(findings, truth)
    return compose(
        "purify",
        blocks,
        numbers,
        ids={"foreign samples": tuple(str(i) for i in ours.ids[ours.removed[:N_CHECK_FIRST]])},
        facts=findings.facts,
        warnings=samples.warnings + findings.warnings,
        files=FILES,
        columns=samples.columns,
    )


def _standard_error(findings: PurifyFindings, score: float) -> float:
    """Of an accuracy on the validation samples; 0 for R², whose error is not known."""
    if not findings.samples.is_classification:
        return 0.0
    return math.sqrt(score * (1 - score) / len(findings.validation))


def _worst_class(findings: PurifyFindings) -> dict[str, object] | None:
    """The class that gives up far more than its share, where there is one."""
    samples = findings.samples
    if not samples.is_classification:
        return None
    before, lost = findings.lost
    part = lost / np.maximum(before, 1)
    worst = int(part.argmax())
    overall = len(findings.purification.removed) / len(samples)
    if part[worst] < UNEVEN * overall or lost[worst] < N_CHECK_FIRST:
        return None
    name = samples.class_names[worst]
    return {"name": name, "lost": lost[worst], "before": before[worst], "share": part[worst]}


def _contest(findings: PurifyFindings, truth: Foreign | None) -> dict[str, object] | None:
    """Our order beside plain loss, at their stops."""
    ours, rival, val = findings.purification, findings.rival, findings.validation
    if rival is None:
        return None
    which = "test" if findings.majority else "validation"
    score, theirs = (float(getattr(one.trace, which)[one.steps]) for one in (ours, rival))
    # The error of R² is not known, so nothing is said of it.
    error = _standard_error(findings, theirs) if findings.samples.is_classification else math.inf
    if findings.majority:
        assert val.source is not None
        error *= math.sqrt(len(val) / int((val.source == findings.majority).sum()))
    known = truth is not None and len(ours.removed) and len(rival.removed)
    return {
        "ours": score,
        "theirs": theirs,
        "removed": len(rival.removed),
        "verdict": interval(score - theirs, error).verdict,
        "precision": truth.precision(rival.removed) if truth is not None and known else None,
    }


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


def _class_table(findings: PurifyFindings) -> Table:
    """Samples of each class that occurs, before and after."""
    before, lost = findings.lost
    rows = []
    for c in np.flatnonzero(before):
        gone = share(lost[c] / before[c])
        cells = (f"{before[c]:,}", f"{lost[c]:,}", f"{before[c] - lost[c]:,}", gone)
        rows.append(Row(findings.samples.class_names[c], cells))
    columns = ("class", "before", "removed", "after", "share removed")
    return Table("Classes before and after", columns, tuple(rows), wraps=False)


def gallery(findings: PurifyFindings) -> Gallery:
    """The first 400 removed at most, in the order of removal."""
    n, classes = len(findings.purification.removed), findings.samples.is_classification
    if not n:
        return Gallery((), note="No sample was removed.")
    truth = foreign(findings)
    views = (View("all", "all removed", sort="rank"),)
    if truth is not None:
        views += (View("right", truth.name), View("wrong", "removed in error"))
    drawn = "All of them" if n <= MAX_CARDS else f"The first {MAX_CARDS} of {n:,}"
    chance = ", and p the chance that it gives the label as it stands" * classes
    return Gallery(
        cards=_cards(findings, truth),
        views=views,
        sorts=(
            ("rank", "order of removal"),
            *[("chance", "chance of its label")] * classes,
            ("id", "id"),
        ),
        class_names=findings.samples.class_names,
        note=f"{drawn}, in the order of removal. The arrow gives the label that the model fitted "
        f"to the kept samples prefers{chance}.",
        advice_view="all",
    )


def _cards(findings: PurifyFindings, truth: Foreign | None) -> tuple[Card, ...]:
    samples, ours = findings.samples, findings.purification
    removed = ours.removed[:MAX_CARDS]
    steps = np.searchsorted(ours.trace.removed, np.arange(len(removed)), side="right")
    cards = []
    for rank, (i, step, drawing) in enumerate(
        zip(removed, steps, draw(samples, removed), strict=True), 1
    ):
        texts = sample_texts(samples, i)
        suggested = label_text(samples.class_names, findings.predicted[i])
        view = () if truth is None else ("right",) if truth.mask[i] else ("wrong",)
        figures = ((f"no. {rank}, step {step}", "order of removal"),)
        keys: dict[str, float] = {"rank": rank}
        if samples.is_classification:
            keys["chance"] = chance = float(findings.chance[i])
            text = f"= {chance:.3f}" if chance >= 1e-3 else "< 0.001"
            figures += ((f"p {text}", "chance of the given label"),)
        cards.append(
            Card(
                **texts,
                drawing=drawing,
                suggested=suggested if suggested != texts["label"] else "",
                source="" if samples.source is None else str(samples.source[i]),
                figures=figures,
                verdict="removed in error" if "wrong" in view else "",
                views=("all", *view),
                keys=keys,
            )
        )
    return tuple(cards)
