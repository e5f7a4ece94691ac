"""The samples that belong to their block most surely, each as a card."""

from __future__ import annotations

import numpy as np

from datassay.commands.partition.findings import PartitionFindings
from datassay.report.drawing import PER_CLASS, draw, sample_texts
from datassay.report.page import Card, Gallery, View


def gallery(findings: PartitionFindings) -> Gallery:
    """The twelve surest samples of each block; among equals earlier ones first."""
    return Gallery(
        cards=_cards(findings),
        views=(
            View("", "all blocks"),
            *(View(str(k), name) for k, name in enumerate(findings.block_names)),
        ),
        views_name="Block",
        sorts=(
            ("place", "block, surest first"), ("responsibility", "responsibility"), ("id", "id"),
        ),
        class_names=findings.samples.class_names,
        note="At most twelve of each block, those of highest responsibility.",
    )  # fmt: skip


def _cards(findings: PartitionFindings) -> tuple[Card, ...]:
    samples, block, own = findings.samples, findings.partition.block, findings.own_responsibility
    names = findings.block_names
    order = np.lexsort((-own, block))  # by block, the surest first
    first = np.searchsorted(block[order], block[order])  # where each one's block begins
    shown = order[np.arange(len(order)) - first < PER_CLASS]
    return tuple(
        Card(
            **sample_texts(samples, i),
            drawing=drawing,
            source="" if samples.source is None else str(samples.source[i]),
            figures=((f"{names[block[i]]}, {own[i]:.3f}", ""),),
            views=(str(block[i]),),
            keys={"place": place, "responsibility": float(own[i])},
        )
        for place, (i, drawing) in enumerate(zip(shown, draw(samples, shown), strict=True), 1)
    )
