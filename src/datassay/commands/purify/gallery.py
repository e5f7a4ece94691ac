"""The removed samples in the order of their removal, each as a card."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datassay.commands.purify.findings import PurifyFindings, foreign
from datassay.report.drawing import MAX_CARDS, Drawing, draw
from datassay.report.wording import label_text


@dataclass(frozen=True, slots=True)
class RemovedCard:
    """One removed sample as the gallery shows it; every text is plain and not yet escaped.

    Attributes:
        id: the sample's id.
        rank: place in the order of removal, from 1.
        step: of its removal.
        label: its given label.
        suggested: by the model fitted to what is kept; empty where it is the given one.
        truth: the true label; empty where it is the given one or not known.
        source: where it came from; empty where that is not known.
        class_index: the given class; -1 for regression.
        chance: of the given label under that model; NaN for a regression.
        chance_text: the same, as "= 0.110" or "< 0.001"; empty for a regression.
        views: "right" or "wrong" where it is known whether it should have gone.
        verdict: in words, such as "right label"; empty where it was removed rightly or nothing is
            known.
        drawing: the sample itself.
    """

    id: str
    rank: int
    step: int
    label: str
    suggested: str
    truth: str
    source: str
    class_index: int
    chance: float
    chance_text: str
    views: str
    verdict: str
    drawing: Drawing


def removed_cards(findings: PurifyFindings) -> tuple[RemovedCard, ...]:
    """The gallery's cards.

    Args:
        findings: one purification.

    Returns:
        The first 400 removed at most, in the order of removal.
    """
    removed = findings.found.removed[:MAX_CARDS]
    edges = findings.found.trace.removed
    steps = np.searchsorted(edges, np.arange(1, len(removed) + 1), side="left")
    drawings = draw(findings.samples, removed)
    truth = foreign(findings)
    return tuple(
        _card(findings, int(i), rank, int(step), drawing, None if truth is None else truth.mask)
        for rank, (i, step, drawing) in enumerate(zip(removed, steps, drawings, strict=True), 1)
    )


def _card(
    findings: PurifyFindings,
    i: int,
    rank: int,
    step: int,
    drawing: Drawing,
    mask: np.ndarray | None,
) -> RemovedCard:
    samples, names = findings.samples, findings.samples.class_names
    given = label_text(names, samples.y[i])
    suggested = label_text(names, findings.predicted[i])
    truth = given if samples.true_y is None else label_text(names, samples.true_y[i])
    view = "" if mask is None else "right" if mask[i] else "wrong"
    return RemovedCard(
        id=str(samples.ids[i]),
        rank=rank,
        step=step,
        label=given,
        suggested=suggested if suggested != given else "",
        truth=truth if truth != given else "",
        source="" if samples.source is None else str(samples.source[i]),
        class_index=int(samples.y[i]) if samples.is_classification else -1,
        chance=float(findings.chance[i]) if samples.is_classification else 0.0,
        chance_text=_chance(float(findings.chance[i])) if samples.is_classification else "",
        views=f"all {view}".strip(),
        verdict="removed in error" if view == "wrong" else "",
        drawing=drawing,
    )


def _chance(value: float) -> str:
    return f"= {value:.3f}" if value >= 1e-3 else "< 0.001"
