"""The heaviest samples with their neighbours' labels (S0 Fig. 3), and the lightest beside them."""

from __future__ import annotations

import numpy as np

from datassay.commands.weigh.findings import (
    FAR,
    WeighFindings,
    agreement,
    doubtful,
    neighbor_counts,
    neighbor_mean,
)
from datassay.report.drawing import draw, sample_texts
from datassay.report.page import Card, Gallery, View
from datassay.report.wording import label_text, number, percent

N_HEAVIEST, N_LIGHTEST, N_DOUBTFUL = 144, 48, 96
CLASSES_SHOWN = 3


def gallery(findings: WeighFindings) -> Gallery:
    """144 of the heaviest samples, 48 of the lightest, 96 of the doubtful; heaviest first."""
    order, bad = findings.order, doubtful(findings)
    classes = findings.samples.is_classification
    views = {
        "heaviest": order[: min(N_HEAVIEST, (len(order) + 1) // 2)],
        "lightest": order[::-1][: min(N_LIGHTEST, len(order) // 2)],
        "doubtful": order[bad[order]][:N_DOUBTFUL],
    }
    shown = order[np.isin(order, np.concatenate(list(views.values())))]
    agree = (("agreement", "neighbours of its label"),) if classes else ()
    return Gallery(
        cards=_cards(findings, shown, views, bad),
        views=tuple(
            View(name, name, sort="weight", descending=name != "lightest")
            for name, positions in views.items()
            if name != "doubtful" or len(positions)
        ),
        sorts=(("weight", "weight"), *agree, ("id", "id")),
        descending=True,
        class_names=findings.samples.class_names,
        note=_note(findings),
        advice_view="doubtful",
    )


def _cards(
    findings: WeighFindings, shown: np.ndarray, views: dict[str, np.ndarray], bad: np.ndarray
) -> tuple[Card, ...]:
    samples = findings.samples
    near, shares = _neighbors(findings, shown)
    weight = findings.sample_weight
    cards = []
    for k, (i, drawing) in enumerate(zip(shown, draw(samples, shown), strict=True)):
        figures = ((f"w {number(float(weight[i]))}", "sample weight, mean 1"), (near[k], ""))
        cards.append(
            Card(
                **sample_texts(samples, i),
                drawing=drawing,
                source="" if samples.source is None else str(samples.source[i]),
                figures=figures,
                verdict="doubtful" if bad[i] else "",
                views=tuple(name for name, positions in views.items() if i in positions),
                keys={"weight": float(weight[i]), "agreement": float(shares[k])},
            )
        )
    return tuple(cards)


def _neighbors(findings: WeighFindings, shown: np.ndarray) -> tuple[list[str], np.ndarray]:
    """The neighbours in words, and the share of them with the sample's own label."""
    samples = findings.samples
    if not samples.is_classification:
        mean = neighbor_mean(findings)
        y = samples.y.reshape(len(samples), -1)
        spread = y[findings.others[shown]].std(1)
        one = y.shape[1] == 1
        texts = [
            f"neighbours {number(float(m[0]))} ± {number(float(s[0]))}"
            if one
            else f"neighbours {label_text((), m)}"
            for m, s in zip(mean[shown], spread, strict=True)
        ]
        return texts, np.zeros(len(shown))
    counts = neighbor_counts(findings)[shown]
    texts = []
    for row in counts:
        top = [c for c in np.argsort(-row, kind="stable")[:CLASSES_SHOWN] if row[c]]
        more = int((row > 0).sum()) - len(top)
        named = ", ".join(f"{samples.class_names[c]} (×{row[c]})" for c in top)
        texts.append(f"neighbours {named}{f', {more} more' if more else ''}")
    return texts, agreement(findings)[shown]


def _note(findings: WeighFindings) -> str:
    n, k = len(findings.samples), findings.local.neighbors.index.shape[1]
    tenth = percent(round(len(findings.heaviest) / n, 3))
    doubt = (
        "the neighbours agree on another label than the sample's own"
        if findings.samples.is_classification
        else f"the target is more than {FAR:g} standard deviations from its neighbours' mean"
    )
    note = (
        f"w is the weight (mean 1), with the labels of the {k - 1} nearest other samples. The "
        f"heaviest {tenth} are {len(findings.heaviest):,} samples"
    )
    return note + (f"; doubtful: {doubt}." if doubtful(findings).any() else ".")
