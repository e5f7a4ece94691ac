"""Pairs of samples that stand in for each other, and pairs that contradict each other."""

from __future__ import annotations

import numpy as np

from datassay.commands.run.findings import Findings
from datassay.report.drawing import Drawing, draw
from datassay.report.page import Block, Card, CardPair, Gallery, Heading, Section, Text
from datassay.report.wording import label_text, number

N_PAIRS = 8


def section(findings: Findings) -> tuple[Section, ...]:
    """The pairs of largest redundancy and of largest synergy; nothing where there are none."""
    redundant, contrary = pair_cards(findings)
    if not redundant and not contrary:
        return ()
    blocks: list[Block] = [
        Text("Each sample beside the one whose gradients are most like its own, and what the "
             "network loses without both.")
    ]  # fmt: skip
    if redundant:
        text = (
            "Without one the other says the same, so each looks less informative than it is. Keep "
            "at least one of the two."
        )
        blocks += [Heading("They stand in for each other"), Text(text), Gallery(redundant)]
    if contrary:
        alike = ": alike to the network, and often labelled differently"
        alike = alike if findings.samples.is_classification else ""
        text = f"Each matters more because the other is there{alike}."
        blocks += [Heading("They contradict each other"), Text(text), Gallery(contrary)]
    title = "Pairs that count only together, or against each other"
    return (Section("pairs", "Pairs", title, tuple(blocks)),)


def pair_cards(findings: Findings) -> tuple[tuple[CardPair, ...], tuple[CardPair, ...]]:
    """At most eight pairs that carry more together than their sum, and eight that carry less.

    Returns:
        The largest difference comes first.
    """
    pairs = findings.pairs
    if pairs is None:
        return (), ()
    order = np.argsort(pairs.interaction, kind="stable").tolist()
    redundant = [q for q in order[:N_PAIRS] if pairs.interaction[q] < 0]
    contrary = [q for q in order[::-1][:N_PAIRS] if pairs.interaction[q] > 0]
    chosen = redundant + contrary
    drawings = draw(findings.samples, pairs.pairs[chosen].ravel())  # once: it reads all samples
    both = zip(drawings[::2], drawings[1::2], strict=True)
    cards = tuple(_card(findings, q, two) for q, two in zip(chosen, both, strict=True))
    return cards[: len(redundant)], cards[len(redundant) :]


def _card(findings: Findings, q: int, drawings: tuple[Drawing, Drawing]) -> CardPair:
    pairs, samples = findings.pairs, findings.samples
    assert pairs is not None
    first, second = (
        Card(
            id=str(samples.ids[i]),
            label=label_text(samples.class_names, samples.y[i]),
            drawing=drawing,
            figures=((f"{number(alone)} nats", ""),),
            verdict="suspect label" if findings.issues.is_issue[i] else "",
        )
        for i, alone, drawing in zip(pairs.pairs[q], pairs.single[q], drawings, strict=True)
    )
    joint, alone = pairs.joint[q], pairs.single[q].sum()
    ratio = f"{joint / alone:.1f}" if alone > 0 else "∞"
    return CardPair((first, second), f"together {number(joint)} nats, {ratio} times their sum")
