"""The page of a weighting: its tables and cards; `text/weigh.md.j2` says the rest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from datassay.act.weigh.gain import WeightGain
from datassay.commands.weigh import figures
from datassay.commands.weigh.files import FILES
from datassay.commands.weigh.findings import (
    FAR,
    WeighFindings,
    agreement,
    concentration,
    doubtful,
    neighbor_counts,
    neighbor_mean,
)
from datassay.data.samples import wrong_labels
from datassay.report.advice import N_CHECK_FIRST
from datassay.report.compose import compose
from datassay.report.drawing import draw, sample_texts
from datassay.report.page import Card, Gallery, Page, Row, Table, View
from datassay.report.wording import label_text, number, share, signed

N_HEAVIEST, N_LIGHTEST, N_DOUBTFUL = 144, 48, 96
CLASSES_SHOWN = 3
# Doubtful labels are worth a look where they make up this much of the heaviest tenth, or of all
# samples (clean sets measured: up to 1.3 %; ten per cent wrong labels: 8.6 % and more), and are to
# be acted on from twice as much on. With two classes the heaviest, half of whose neighbours have
# each label, are hardly ever doubtful themselves.
NOTABLE_HEAVY, NOTABLE = 0.05, 0.03


def page(findings: WeighFindings) -> Page:
    """Everything that the command says."""
    samples, gain, weight = findings.samples, findings.gain, findings.sample_weight
    heavy, order, bad = findings.heaviest, findings.order, doubtful(findings)
    wrong = wrong_labels(samples)
    overall, among = float(bad.mean()), float(bad[heavy].mean())
    doubts = {
        "n": int(bad.sum()),
        "overall": overall,
        "among": among,
        "heavy": int(bad[heavy].sum()),
        "weight": float(weight[bad].mean()) if bad.any() else 0.0,
        "is_notable": overall >= NOTABLE or (among >= NOTABLE_HEAVY and among > overall),
        "is_urgent": among >= 2 * NOTABLE_HEAVY or overall >= 2 * NOTABLE,
    }
    known = None
    if wrong is not None:
        known = {"n": int(wrong.sum()), "heavy": wrong[heavy].mean(), "all": wrong.mean()}
        known["weight"] = float(weight[wrong].mean()) if wrong.any() else 0.0
    numbers = {
        "findings": findings,
        "uneven": concentration(findings),
        "all_equal": np.ptp(findings.weights.weight) == 0,
        "tenth": len(heavy),
        "k": findings.local.neighbors.index.shape[1],
        "scores": [] if gain is None else [float(one.mean()) for one in gain.score.T],
        "n_seeds": 0 if gain is None else gain.score.shape[0],
        "n_val": 0 if gain is None else gain.each.shape[1],
        "doubts": doubts,
        "known": known,
        "far": FAR,
        "named": {findings.method, *(() if gain is None else gain.names)},
    }
    blocks = {
        "weights": figures.weight_figure(findings),
        "share": figures.share_figure(findings),
        "classes": _class_table(findings) if samples.is_classification else None,
        "gallery": gallery(findings),
    }
    if gain is not None:
        blocks |= {"table": _gain_table(gain), "gain": figures.gain_figure(gain)}
    if findings.boundary is not None:
        blocks["boundary"] = figures.boundary_figure(findings, findings.boundary)
    first = tuple(str(i) for i in samples.ids[order[bad[order]][:N_CHECK_FIRST]])
    page = compose(
        "weigh",
        blocks,
        numbers,
        ids={"labels": first if doubts["is_notable"] else ()},
        facts=findings.facts,
        warnings=samples.warnings + findings.warnings,
        files=FILES,
        columns=samples.columns,
    )
    answer = tuple(f"{one.headline}." for one in page.advice if one.kind != "contest")
    return replace(page, answer=answer)


def _gain_table(gain: WeightGain) -> Table:
    """Scores with and without weights, a row a weighting."""
    unit = ", points" if gain.metric == "accuracy" else ""
    rows = []
    for i, name in enumerate(gain.names):
        change, half = gain.difference(i)
        cells = (f"{gain.score[:, i].mean():.3f}", "–", "–", "–")
        if i:
            low, high = (signed(change + s * half, gain.metric) for s in (-1, 1))
            interval = f"{low} to {high}"
            cells = (cells[0], signed(change, gain.metric), interval, gain.verdict(i))
        rows.append(Row(name, cells))
    columns = ("weights", gain.metric, f"change{unit}", "95 % interval", "verdict")
    return Table("Scores with and without weights", columns, tuple(rows), in_terminal=True)


def _class_table(findings: WeighFindings) -> Table:
    """What each class that occurs holds of samples and of weight."""
    samples, weight, bad = findings.samples, findings.sample_weight, doubtful(findings)
    constant = findings.local.variance == 0
    rows = []
    for c in np.unique(samples.y):
        own = samples.y == c
        cells = (
            f"{own.sum():,}",
            share(own.mean()),
            share(weight[own].sum() / weight.sum()),
            number(float(weight[own].mean())),
            share(constant[own].mean()),
            f"{(bad & own).sum():,}",
        )
        rows.append(Row(samples.class_names[c], cells))
    columns = (
        "class", "samples", "share of samples", "share of weight", "mean weight", "variance 0",
        "doubtful",
    )  # fmt: skip
    return Table("Weight by class", columns, tuple(rows))


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
    tenth = share(len(findings.heaviest) / n)
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
