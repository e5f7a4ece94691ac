"""The gallery of an explanation: samples of large self-influence, and those that harm."""

from __future__ import annotations

import numpy as np

from datassay.collect.curvature.output_loss import predicted_class
from datassay.commands.explain.findings import ExplainFindings
from datassay.report.drawing import Drawing, draw, sample_texts
from datassay.report.page import Card, Gallery, View
from datassay.report.wording import label_text, number

N_CARDS = 60
FIRST = View("labels", "largest self-influence", sort="own", descending=True)


def gallery(findings: ExplainFindings) -> Gallery:
    """The first sixty of each view."""
    n = len(findings.samples)  # of an index: those that can be drawn
    first, harm = (found[found < n][:N_CARDS] for found in (findings.first, harmful(findings)))
    views = {int(i): ["labels"] for i in first}
    shown, sorts = [FIRST], [("own", "self-influence"), ("id", "id")]
    if findings.harm is not None:
        word = "raise the losses" if findings.attribution.measure == "loss" else "lower the margins"
        shown.append(View("harm", f"{word} most", sort="harm", descending=True))
        sorts.insert(1, ("harm", "harm to all queries"))
        for i in harm:
            views.setdefault(int(i), []).append("harm")
    drawings = draw(findings.samples, np.fromiter(views, int, len(views)))
    return Gallery(
        cards=tuple(
            _card(findings, i, tuple(named), drawing)
            for (i, named), drawing in zip(views.items(), drawings, strict=True)
        ),
        views=tuple(shown),
        sorts=tuple(sorts),
        descending=True,
        class_names=findings.samples.class_names,
        advice_view="labels",
    )


def harmful(findings: ExplainFindings) -> np.ndarray:
    """Positions of the samples that lower margins, or raise losses, the worst first."""
    harm = findings.harm
    if harm is None:
        return np.empty(0, int)
    order = np.argsort(-harm, kind="stable")
    return order[harm[order] > 0]


def predicted_text(findings: ExplainFindings, i: int) -> str:
    """What is predicted of a training sample; empty where that is not shown."""
    if findings.fitted is None:
        return ""
    names, row = findings.samples.class_names, findings.fitted[i : i + 1]
    return label_text(names, predicted_class(row)[0] if names else row[0])


def _card(findings: ExplainFindings, i: int, views: tuple[str, ...], drawing: Drawing) -> Card:
    own, total = float(findings.self_influence[i]), float(findings.attribution.total[i])
    texts, predicted = sample_texts(findings.samples, i), predicted_text(findings, i)
    keys = {"own": float(np.nan_to_num(own))}
    if findings.harm is not None:
        keys["harm"] = float(findings.harm[i])
    return Card(
        **texts,
        drawing=drawing,
        suggested=predicted if predicted != texts["label"] else "",
        figures=(
            (f"self {number(own)}", "self-influence"),
            (f"total {number(total).replace('-', '−')}", "effect on all queries together"),
        ),
        views=views,
        keys=keys,
    )
