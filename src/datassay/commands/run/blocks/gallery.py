"""Which samples the gallery shows, and what each card says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from datassay.commands.run.findings import Findings
from datassay.report.drawing import MAX_CARDS, PER_CLASS, Drawing, draw
from datassay.report.wording import label_text, number

N_ISSUES = 60

View = Literal["most", "least", "issues"]


@dataclass(frozen=True, slots=True)
class Card:
    """One sample as the gallery shows it; every text is plain and not yet escaped.

    Attributes:
        id: the sample's id.
        label: its given label.
        suggested: the suggested label; empty where it is the given one.
        truth: the true label; empty where it is the given one or not known.
        class_index: the given class; -1 for regression.
        information: nats.
        information_text: the same with three significant digits.
        issue_score: label issue score.
        issue_text: the same, rounded.
        is_issue: whether the label is suspect.
        views: which of "most", "least" and "issues" show it.
        drawing: the sample itself.
    """

    id: str
    label: str
    suggested: str
    truth: str
    class_index: int
    information: float
    information_text: str
    issue_score: float
    issue_text: str
    is_issue: bool
    views: tuple[View, ...]
    drawing: Drawing


def chosen(findings: Findings) -> dict[int, tuple[View, ...]]:
    """Positions of the samples to show, each with the views that show it.

    The suspected label errors of highest score come first, then each class's most and least
    informative sample, then each class's second ones, and so on, until the gallery is full.
    A class's most and least informative samples never overlap.

    Args:
        findings: one run's results.

    Returns:
        At most 400 positions, most informative first.
    """
    information = findings.information.information
    suspects = findings.issues.suspects[:N_ISSUES]
    views: dict[int, list[View]] = {int(i): ["issues"] for i in suspects}
    for position, view in _by_rank(findings):
        if position in views:
            views[position].append(view)
        elif len(views) < MAX_CARDS:
            views[position] = [view]
    order = sorted(views, key=lambda i: (-information[i], i))
    return {i: tuple(views[i]) for i in order}


def _by_rank(findings: Findings) -> list[tuple[int, View]]:
    samples = findings.samples
    per_class = PER_CLASS if samples.is_classification else 5 * PER_CLASS
    classes = samples.y if samples.is_classification else np.zeros(len(samples), int)
    ranked = []
    for index in np.unique(classes):
        inside = np.flatnonzero(classes == index)
        order = inside[np.argsort(-findings.information.information[inside], kind="stable")]
        n_most = min(per_class, (len(order) + 1) // 2)
        n_least = min(per_class, len(order) // 2)
        ranked += [(rank, index, int(i), "most") for rank, i in enumerate(order[:n_most])]
        ranked += [(rank, index, int(i), "least") for rank, i in enumerate(order[::-1][:n_least])]
    ranked.sort(key=lambda entry: entry[:2])  # stable: "most" stays before "least"
    return [(position, view) for _, _, position, view in ranked]


def cards(findings: Findings) -> tuple[Card, ...]:
    """The gallery's cards, most informative first.

    Args:
        findings: one run's results.

    Returns:
        One card a chosen sample.
    """
    views = chosen(findings)
    drawings = draw(findings.samples, np.fromiter(views, int, len(views)))
    return tuple(
        _card(findings, position, views[position], drawing)
        for position, drawing in zip(views, drawings, strict=True)
    )


def _card(findings: Findings, i: int, views: tuple[View, ...], drawing: Drawing) -> Card:
    samples, issues = findings.samples, findings.issues
    information = float(findings.information.information[i])
    given = label_text(samples.class_names, samples.y[i])
    suggested = label_text(samples.class_names, issues.suggested_label[i])
    truth = given
    if samples.true_y is not None:
        truth = label_text(samples.class_names, samples.true_y[i])
    shows_suggestion = samples.is_classification or bool(issues.is_issue[i])
    return Card(
        id=str(samples.ids[i]),
        label=given,
        suggested=suggested if suggested != given and shows_suggestion else "",
        truth=truth if truth != given else "",
        class_index=int(samples.y[i]) if samples.is_classification else -1,
        information=information,
        information_text=number(information),
        issue_score=float(issues.score[i]),
        issue_text=f"{issues.score[i]:.2f}".replace("-", "−"),
        is_issue=bool(issues.is_issue[i]),
        views=views,
        drawing=drawing,
    )
