"""Pairs of samples that stand in for each other, and pairs that contradict each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datassay.commands.run.findings import Findings
from datassay.report.drawing import Drawing, draw
from datassay.report.wording import label_text, number

N_PAIRS = 8


@dataclass(frozen=True, slots=True)
class PairCard:
    """One pair as the page shows it; every text is plain and not yet escaped.

    Attributes:
        ids: of both.
        labels: given.
        suspect: whether each label is suspected.
        single: information of each alone, nats.
        joint: of both together, nats.
        ratio: of the joint one to the sum of the single ones.
        drawings: the samples themselves.
    """

    ids: tuple[str, str]
    labels: tuple[str, str]
    suspect: tuple[bool, bool]
    single: tuple[str, str]
    joint: str
    ratio: str
    drawings: tuple[Drawing, Drawing]


def pair_cards(findings: Findings) -> tuple[tuple[PairCard, ...], tuple[PairCard, ...]]:
    """The pairs of largest redundancy and of largest synergy.

    Args:
        findings: one run's results.

    Returns:
        At most eight pairs that carry more together than their sum, and eight that carry less, the
        largest difference first; empty where no pairs were asked about.
    """
    found = findings.pairs
    if found is None:
        return (), ()
    order = np.argsort(found.interaction, kind="stable").tolist()
    redundant = [q for q in order[:N_PAIRS] if found.interaction[q] < 0]
    contrary = [q for q in order[::-1][:N_PAIRS] if found.interaction[q] > 0]
    chosen = redundant + contrary
    drawings = draw(findings.samples, found.pairs[chosen].ravel())  # once: it reads all samples
    both = zip(drawings[::2], drawings[1::2], strict=True)
    cards = tuple(_card(findings, q, two) for q, two in zip(chosen, both, strict=True))
    return cards[: len(redundant)], cards[len(redundant) :]


def _card(findings: Findings, q: int, drawings: tuple[Drawing, Drawing]) -> PairCard:
    found, samples = findings.pairs, findings.samples
    assert found is not None
    pair, alone = found.pairs[q], found.single[q]
    a, b = (int(i) for i in pair)
    return PairCard(
        ids=(str(samples.ids[a]), str(samples.ids[b])),
        labels=(
            label_text(samples.class_names, samples.y[a]),
            label_text(samples.class_names, samples.y[b]),
        ),
        suspect=(bool(findings.issues.is_issue[a]), bool(findings.issues.is_issue[b])),
        single=(number(alone[0]), number(alone[1])),
        joint=number(found.joint[q]),
        ratio=f"{found.joint[q] / alone.sum():.1f}" if alone.sum() > 0 else "∞",
        drawings=drawings,
    )
