"""The heaviest samples with their neighbours' labels (S0 Fig. 3), and the lightest beside them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datassay.commands.weigh.findings import (
    FAR,
    WeighFindings,
    agreement,
    doubtful,
    neighbor_counts,
    neighbor_mean,
)
from datassay.report.drawing import Drawing, draw
from datassay.report.wording import label_text, number, percent

N_HEAVIEST, N_LIGHTEST, N_DOUBTFUL = 144, 48, 96
CLASSES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class WeightCard:
    """One sample as the gallery shows it; every text is plain and not yet escaped.

    Attributes:
        id: the sample's id.
        label: its given label.
        truth: the true label; empty where it is the given one or not known.
        source: where it came from; empty where that is not known.
        class_index: the given class; -1 for regression.
        weight: with mean 1.
        weight_text: the same with three significant digits.
        agreement: share of the neighbours with its label; 0 for a regression.
        near: the neighbours' labels in words.
        is_doubtful: whether its neighbours contradict it.
        views: which of "heaviest", "lightest" and "doubtful" show it.
        drawing: the sample itself.
    """

    id: str
    label: str
    truth: str
    source: str
    class_index: int
    weight: float
    weight_text: str
    agreement: float
    near: str
    is_doubtful: bool
    views: str
    drawing: Drawing


def weight_cards(findings: WeighFindings) -> tuple[WeightCard, ...]:
    """The gallery's cards.

    Args:
        findings: one weighting.

    Returns:
        Heaviest first: 144 of the heaviest, 48 of the lightest (as many at most as there are), and
        96 of the doubtful, heaviest first.
    """
    order, bad = findings.order, doubtful(findings)
    n_heaviest = min(N_HEAVIEST, (len(order) + 1) // 2)
    n_lightest = min(N_LIGHTEST, len(order) // 2)
    views: dict[int, list[str]] = {}
    for name, positions in (
        ("heaviest", order[:n_heaviest]),
        ("lightest", order[::-1][:n_lightest]),
        ("doubtful", order[bad[order]][:N_DOUBTFUL]),
    ):
        for i in positions:
            views.setdefault(int(i), []).append(name)
    shown = [int(i) for i in order if int(i) in views]
    near, shares = _neighbors(findings, shown)
    drawings = draw(findings.samples, np.array(shown, int))
    return tuple(
        _card(findings, i, views[i], near[k], float(shares[k]), bool(bad[i]), drawings[k])
        for k, i in enumerate(shown)
    )


def _neighbors(findings: WeighFindings, shown: list[int]) -> tuple[list[str], np.ndarray]:
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


def _card(
    findings: WeighFindings,
    i: int,
    views: list[str],
    near: str,
    share: float,
    is_doubtful: bool,
    drawing: Drawing,
) -> WeightCard:
    samples, names = findings.samples, findings.samples.class_names
    weight = float(findings.sample_weight[i])
    given = label_text(names, samples.y[i])
    truth = given if samples.true_y is None else label_text(names, samples.true_y[i])
    return WeightCard(
        id=str(samples.ids[i]),
        label=given,
        truth=truth if truth != given else "",
        source="" if samples.source is None else str(samples.source[i]),
        class_index=int(samples.y[i]) if samples.is_classification else -1,
        weight=weight,
        weight_text=number(weight),
        agreement=share,
        near=near,
        is_doubtful=is_doubtful,
        views=" ".join(views),
        drawing=drawing,
    )


def gallery_note(findings: WeighFindings) -> str:
    """What the gallery shows, in words.

    Args:
        findings: one weighting.

    Returns:
        Plain text.
    """
    n, k = len(findings.samples), findings.local.neighbors.index.shape[1]
    tenth = percent(round(len(findings.heaviest) / n, 3))
    doubt = (
        "the neighbours agree on another label than the sample's own"
        if findings.samples.is_classification
        else f"the target is more than {FAR:g} standard deviations from its neighbours' mean"
    )
    told = (
        f"w is the weight (mean 1), with the labels of the {k - 1} nearest other samples. The "
        f"heaviest {tenth} are {len(findings.heaviest):,} samples"
    )
    return told + (f"; doubtful: {doubt}." if doubtful(findings).any() else ".")
