"""The removed samples in the order of their removal, each as a card."""

from __future__ import annotations

import numpy as np

from datassay.commands.purify.findings import Foreign, PurifyFindings, foreign
from datassay.report.drawing import MAX_CARDS, draw, sample_texts
from datassay.report.page import Card, Gallery, View
from datassay.report.wording import label_text


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
