"""Samples on the page of a run: the gallery, pairs, and the review of suspected labels."""

from collections.abc import Sequence

import numpy as np

from datassay.commands.run.findings import Findings
from datassay.commands.run.labels import to_check
from datassay.optional import text_if
from datassay.report.drawing import MAX_CARDS, PER_CLASS, Drawing, draw, sample_texts
from datassay.report.page import Card, CardPair, Gallery, View
from datassay.report.predictions import Predictions
from datassay.report.review.labels import Reviewed, near_duplicates_of
from datassay.report.wording import (
    count,
    label_text,
    labels_given,
    number,
    rough_percent,
    shortened,
)

N_ISSUES = 60
N_PAIRS = 8
N_FIRST = 6
VIEWS = (
    View("most", "most informative", sort="information", descending=True),
    View("least", "least informative", sort="information"),
    View("issues", "likely label errors", sort="score", descending=True),
)


def gallery(findings: Findings) -> Gallery:
    """Return the gallery of chosen samples, most informative first."""
    views = pick_samples(findings)
    drawings = draw(findings.samples, np.fromiter(views, int, len(views)))
    return Gallery(
        cards=tuple(
            _make_card(findings, position, views[position], drawing)
            for position, drawing in zip(views, drawings, strict=True)
        ),
        views=VIEWS,
        sorts=(("information", "information"), ("score", "label issue score"), ("id", "id")),
        descending=True,
        class_names=findings.samples.class_names,
        note=_describe_choice(findings, len(views)),
        advice_view="issues",
    )


def first_samples(findings: Findings, positions: np.ndarray) -> Gallery:
    """Draw the first six samples to review, each with its label and what it looks like."""
    top = positions[:N_FIRST]
    cards = []
    words = ("labelled", "looks like")
    if findings.issues.posterior is None:
        words = ("given", "likely")
    for i, drawing in zip(top, draw(findings.samples, top), strict=True):
        card = _make_card(findings, int(i), (), drawing)
        suggestion = text_if(card.suggested, f", {words[1]} {shortened(card.suggested, 40)}")
        label = f"{words[0]} {shortened(card.label, 40)}{suggestion}"
        cards += [Card(card.id, label, drawing)]
    return Gallery(tuple(cards))


def pick_samples(findings: Findings) -> dict[int, tuple[str, ...]]:
    """Choose at most 400 samples to show; return position → names of the views that show it.

    Returns:
        Most informative first. The suspected label errors of highest score (see `to_check`) are
        taken first, then each class's most and least informative sample, then each class's second
        ones, and so on, until the gallery is full. No sample is both most and least informative.
    """
    samples = findings.samples
    information = findings.information.information
    if samples.is_classification:
        per_class = PER_CLASS
        classes = samples.y
    else:
        per_class = 5 * PER_CLASS
        classes = np.zeros(len(samples), int)
    ranked = []
    for c in np.unique(classes):
        members = np.flatnonzero(classes == c)
        ranking = members[np.argsort(-information[members], kind="stable")]
        informative = ranking[: min(per_class, (len(ranking) + 1) // 2)]
        uninformative = ranking[::-1][: min(per_class, len(ranking) // 2)]
        ranked += [(rank, c, int(i), "most") for rank, i in enumerate(informative)]
        ranked += [(rank, c, int(i), "least") for rank, i in enumerate(uninformative)]
    ranked.sort(key=lambda entry: entry[:2])  # stable: "most" stays before "least"
    views = {int(i): ["issues"] for i in to_check(findings)[:N_ISSUES]}
    for _, _, position, view in ranked:
        if position in views or len(views) < MAX_CARDS:
            views.setdefault(position, []).append(view)
    return {i: tuple(views[i]) for i in sorted(views, key=lambda i: (-information[i], i))}


def _make_card(findings: Findings, i: int, views: tuple[str, ...], drawing: Drawing) -> Card:
    """Return a sample's card: label, suggestion, information, and how likely it is wrong."""
    samples = findings.samples
    issues = findings.issues
    information = float(findings.information.information[i])
    score = float(issues.score[i])
    p_wrong = float(issues.known_probability[i])
    chance = f"{rough_percent(p_wrong).removeprefix('about ')} likely wrong"
    texts = sample_texts(samples, i)
    is_suspect = bool(issues.is_issue[i])
    extra_figures = ()
    if findings.has_several_labels:
        texts |= {"label": labels_given(samples.y[i], samples.target_names), "truth": ""}
        suggested = labels_given(issues.suggested_label[i], samples.target_names)
    else:
        suggested = label_text(samples.class_names, issues.suggested_label[i])
        if not samples.is_classification:
            extra_figures = ((f"fit {suggested}", "held-out fit"),)
        if i in issues.cells:
            extra_figures = ((issues.cells[i], "input that looks wrong"),)
    differs = suggested != texts["label"] and (samples.is_classification or is_suspect)
    return Card(
        **texts,
        drawing=drawing,
        suggested=text_if(differs, suggested),
        figures=(
            (times_median(information, findings), "information, compared with the median sample"),
            # NaN: only other groups contradict the label.
            ("wrong, or its group differs" if np.isnan(p_wrong) else chance, "label issue"),
            *extra_figures,
        ),
        verdict=text_if(is_suspect, "suspect label"),
        views=views,
        keys={"information": information, "score": float(np.nan_to_num(score))},
    )


def times_median(information: float, findings: Findings) -> str:
    """Return information in words, such as "3.1 × median"; in nats if the median is 0."""
    median = float(np.median(findings.information.information))
    if median:
        return f"{number(information / median)} × median"
    return f"{number(information)} nats"


def _describe_choice(findings: Findings, n_shown: int) -> str:
    """Return a sentence: how many samples are drawn in the gallery, and how they were chosen."""
    n = len(findings.samples)
    n_suspects = min(N_ISSUES, len(to_check(findings)))
    scope = "of all"
    if findings.samples.is_classification:
        scope = "of each class"
    suspects = text_if(n_suspects, f", and the {count(n_suspects, 'label')} most likely wrong")
    drawn = f"{n_shown} of {count(n, 'sample')} are drawn here"
    return f"{drawn}: the most and least informative {scope}{suspects}."


def pair_cards(findings: Findings) -> tuple[tuple[CardPair, ...], tuple[CardPair, ...]]:
    """Return cards of 8 pairs with less information together than their sum, and 8 with more."""
    pairs = findings.pairs
    if pairs is None:
        return (), ()
    order = np.argsort(pairs.interaction, kind="stable").tolist()
    redundant = [q for q in order[:N_PAIRS] if pairs.interaction[q] < 0]
    contrary = [q for q in order[::-1][:N_PAIRS] if pairs.interaction[q] > 0]
    rows = redundant + contrary
    drawings = draw(findings.samples, pairs.pairs[rows].ravel())  # once: it reads all samples
    by_pair = zip(drawings[::2], drawings[1::2], strict=True)
    cards = tuple(_make_pair(findings, q, pair) for q, pair in zip(rows, by_pair, strict=True))
    return cards[: len(redundant)], cards[len(redundant) :]


def _make_pair(findings: Findings, q: int, drawings: Sequence[Drawing]) -> CardPair:
    """Return both cards of pair `q`, with the information of each and of the two together."""
    pairs = findings.pairs
    samples = findings.samples
    assert pairs is not None
    card_a, card_b = (
        Card(
            id=str(samples.ids[i]),
            label=label_text(samples.class_names, samples.y[i]),
            drawing=drawing,
            figures=((f"{number(information)} nats", ""),),
            verdict=text_if(findings.issues.is_issue[i], "suspect label"),
        )
        for i, information, drawing in zip(pairs.pairs[q], pairs.single[q], drawings, strict=True)
    )
    joint = pairs.joint[q]
    total = pairs.single[q].sum()
    ratio = "∞"
    if total > 0:
        ratio = f"{joint / total:.1f}"
    return CardPair((card_a, card_b), f"together {number(joint)} nats, {ratio} times their sum")


def predictions(findings: Findings) -> Predictions:
    """Return the network's predictions of the queries, and the effects on them."""
    attribution = findings.attribution
    outputs = findings.query_outputs
    assert attribution is not None and outputs is not None
    return Predictions(
        samples=findings.samples,
        queries=findings.queries,
        kind="training" if findings.validation is None else "validation",
        outputs=outputs,
        attribution=attribution,
        is_logit=findings.attribution_at == "trained",
        suspects=findings.issues.is_issue,
    )


def build_review(findings: Findings) -> Reviewed:
    """Return what `datassay view` shows: samples, suggestions, scores, near-duplicates."""
    samples = findings.samples
    issues = findings.issues
    origin = findings.origin
    data_issues = findings.data_issues
    near_duplicates = {}
    if data_issues is not None:
        pairs = [pair.ids for pair in data_issues.pairs if not any(pair.in_validation)]
        near_duplicates = near_duplicates_of(samples.ids, data_issues.duplicate_group, pairs)
    return Reviewed(
        samples=samples,
        suggested=issues.suggested_label,
        probability=issues.known_probability,
        score=issues.score,
        is_issue=issues.is_issue,
        worth_a_look=issues.worth_a_look,
        digest="" if origin is None else origin.digest,
        near_duplicates=near_duplicates,
        coordinates=None if findings.judged is None else findings.judged.coordinates,
        inputs={} if origin is None else origin.inputs,
    )
