"""The page of a partition."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from datassay.commands.partition.advice import partition_advice
from datassay.commands.partition.figures import map_places, partition_figures
from datassay.commands.partition.findings import PartitionFindings, block_name, source_counts
from datassay.commands.partition.method import partition_notes
from datassay.report.drawing import PER_CLASS, Drawing, draw
from datassay.report.old_html import advice_cards, card_kind, render
from datassay.report.page import Row
from datassay.report.wording import count, label_text, number, percent

SCRIPTS = ("figures.js", "gallery.js")
MAX_SOURCES = 12


@dataclass(frozen=True, slots=True)
class BlockCard:
    """One sample as the gallery shows it; every text is plain and not yet escaped.

    Attributes:
        id: the sample's id.
        block: its block.
        label: its given label.
        source: where it came from; empty where that is not known.
        class_index: the given class; -1 for regression.
        responsibility: probability of its block given input and label.
        rank: place within its block, from 1, the surest first.
        drawing: the sample itself.
    """

    id: str
    block: int
    label: str
    source: str
    class_index: int
    responsibility: float
    rank: int
    drawing: Drawing


def render_partition_page(findings: PartitionFindings) -> str:
    """The partition as one self-contained HTML page; see `html.render` for what it promises.

    Args:
        findings: one partition.

    Returns:
        HTML.
    """
    places, explained = map_places(findings)
    figures = partition_figures(findings, places, explained)
    return render("partition.html", SCRIPTS, _context(findings, explained), figures)


def _context(findings: PartitionFindings, explained: float) -> dict[str, object]:
    samples, found = findings.samples, findings.found
    shown = block_cards(findings)
    names, _ = source_counts(findings)
    return {
        "brand": "datassay partition · which training samples follow the same rule",
        "title": samples.name,
        "lead": f"{count(len(samples), 'sample')} in {count(found.n_blocks, 'block')}",
        "facts": findings.facts,
        "warnings": findings.warnings,
        "advice": advice_cards(partition_advice(findings)),
        "gallery_view": "",
        "sections": [
            ("next", "What to do next"),
            ("blocks", "Blocks"),
            ("map", "Map"),
            ("targets", "Labels" if samples.is_classification else "Targets"),
            ("agreement", "In figures"),
            ("gallery", "Samples"),
            ("method", "Method"),
        ],
        "samples": samples,
        "block_columns": block_columns(findings),
        "block_rows": block_rows(findings),
        "map_note": _map_note(findings, explained),
        "figures_rows": agreement_rows(findings),
        "source_columns": ["block", *names] if 1 < len(names) <= MAX_SOURCES else [],
        "source_rows": source_rows(findings),
        "cards": shown,
        "card_kind": card_kind(shown),
        "blocks": [block_name(k) for k in range(found.n_blocks)],
        "method": partition_notes(findings),
    }


def block_columns(findings: PartitionFindings) -> list[str]:
    """Headings of `block_rows`.

    Args:
        findings: one partition.

    Returns:
        The first is of the row names.
    """
    more = ["largest source"] * (findings.samples.source is not None)
    return ["block", "samples", "share", "V", "mean responsibility", *more]


def block_rows(findings: PartitionFindings) -> list[Row]:
    """Each block, then all samples under one model.

    Args:
        findings: one partition.

    Returns:
        Samples, share, V, mean responsibility, and the source that most of them come from.
    """
    found, n = findings.found, len(findings.samples)
    names, counts = source_counts(findings)
    rows = []
    for k, size in enumerate(found.sizes):
        own = findings.own_responsibility[found.block == k]
        cells = [f"{size:,}", percent(round(float(size / n), 3)), number(float(found.variance[k]))]
        cells.append(number(float(own.mean())) if size else "–")
        if names:
            best = int(counts[k].argmax())
            part = percent(round(float(counts[k, best] / max(1, size)), 2))
            cells.append(f"{names[best]} ({part})")
        rows.append(Row(block_name(k), tuple(cells)))
    together = [f"{n:,}", "100 %", number(found.variance_together), "–", *["–"] * bool(names)]
    return [*rows, Row("together", tuple(together))]


def agreement_rows(findings: PartitionFindings) -> list[Row]:
    """The figures of the whole partition.

    Args:
        findings: one partition.

    Returns:
        Name and value of each that is known.
    """
    found, router = findings.found, findings.router
    rows = [
        ("entropy of the blocks, nats", f"{number(found.entropy)} of log K = "
         f"{number(math.log(found.n_blocks))}"),
    ]  # fmt: skip
    rows += [
        (
            f"held-out log-likelihood, K = {k}",
            f"{value:.3f}".replace("-", "\N{MINUS SIGN}") + " (chosen)" * (k == found.n_blocks),
        )
        for k, value in sorted(found.held_out.items())
    ]
    if found.n_blocks > 1:
        rows += [
            ("block depends on the input", "yes" if found.is_gated else "no"),
            ("gain of a router", f"{router.gain:.3f} ± {router.gain_error:.3f}"),
        ]
    if math.isfinite(router.routed):
        rows += [
            (f"validation {findings.metric}, one model", f"{router.single:.3f}"),
            (f"validation {findings.metric}, a model a block", f"{router.routed:.3f}"),
        ]
    if math.isfinite(findings.agreement):
        rows.append(("adjusted Rand index with the sources", f"{findings.agreement:.3f}"))
        rows.append(("the same, models of the true blocks", f"{findings.oracle:.3f}"))
    return [Row(name, (value,)) for name, value in rows]


def source_rows(findings: PartitionFindings) -> list[Row]:
    """How many samples of each source stand in each block.

    Args:
        findings: one partition.

    Returns:
        One row a block.
    """
    _, counts = source_counts(findings)
    return [Row(block_name(k), tuple(f"{c:,}" for c in row)) for k, row in enumerate(counts)]


def block_cards(findings: PartitionFindings) -> tuple[BlockCard, ...]:
    """The twelve samples of each block that belong to it most surely.

    Args:
        findings: one partition.

    Returns:
        Block by block, the surest first, earlier ids before later ones among equals.
    """
    own, block = findings.own_responsibility, findings.found.block
    chosen = []
    for k in range(findings.found.n_blocks):
        inside = np.flatnonzero(block == k)
        best = inside[np.argsort(-own[inside], kind="stable")][:PER_CLASS]
        chosen += [(int(i), rank) for rank, i in enumerate(best, 1)]
    samples = findings.samples
    drawings = draw(samples, np.array([i for i, _ in chosen], int))
    return tuple(
        BlockCard(
            id=str(samples.ids[i]),
            block=int(block[i]),
            label=label_text(samples.class_names, samples.y[i]),
            source="" if samples.source is None else str(samples.source[i]),
            class_index=int(samples.y[i]) if samples.is_classification else -1,
            responsibility=float(own[i]),
            rank=rank,
            drawing=drawing,
        )
        for (i, rank), drawing in zip(chosen, drawings, strict=True)
    )


def _map_note(findings: PartitionFindings, explained: float) -> str:
    note = (
        "Each point is a sample, in the plane of the two principal components of the standardised "
        f"inputs, which hold {percent(round(explained, 2))} of their variance."
    )
    if findings.found.n_blocks == 1:
        return note
    if findings.router.is_informative:
        return note + (
            " The inputs tell the blocks apart, perhaps along a direction that this plane shows "
            "only in part."
        )
    return note + (
        " The inputs do not tell the blocks apart, so they overlap here: they differ in the labels "
        "that like inputs get."
    )
