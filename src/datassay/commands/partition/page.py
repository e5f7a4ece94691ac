"""The page of a partition: its tables and cards; `text/partition.md.j2` says the rest."""

from __future__ import annotations

import math

import numpy as np

from datassay.commands.partition import figures
from datassay.commands.partition.files import FILES
from datassay.commands.partition.job import PartitionFindings, source_counts
from datassay.report.compose import compose
from datassay.report.drawing import PER_CLASS, draw, sample_texts
from datassay.report.page import Card, Gallery, Page, Pair, Row, Table, View
from datassay.report.wording import number, share

MAX_SOURCES = 12
# A sample whose own block is less probable than this could belong to another.
SURE = 0.9


def page(findings: PartitionFindings) -> Page:
    """Everything that the command says."""
    samples, partition = findings.samples, findings.partition
    places, explained = figures.map_places(findings)
    names = findings.block_names
    blocks = {
        "table": _block_table(findings),
        "held_out": figures.held_out_figure(findings) if len(partition.held_out) > 1 else None,
        "variance": figures.variance_figure(findings),
        "map": figures.map_figure(places, partition.block, names, explained),
        "targets": figures.target_figure(findings),
        "figures": _figures(findings),
        "gallery": gallery(findings),
    }
    known, of_source = [], np.zeros(len(samples), int)
    if samples.source is not None:
        known, of_source = np.unique(samples.source, return_inverse=True)
    has_sources = 1 < len(known) <= len(figures.BLOCK_COLOURS)
    if has_sources:
        sources = [str(source) for source in known]
        blocks["sources"] = figures.map_figure(places, of_source, sources, explained)
    numbers = {
        "findings": findings,
        "tried": max(partition.held_out, default=1),
        "sizes": _listed([f"{size:,}" for size in partition.sizes]),
        "variances": _listed([number(float(v)) for v in partition.variance]),
        "is_scored": math.isfinite(findings.router.routed),
        "unsure": float(np.mean(findings.own_responsibility < SURE)),
        "sure": SURE,
        "knows_sources": math.isfinite(findings.agreement),
        "has_sources": has_sources,
        "explained": round(explained, 2),
    }
    return compose(
        "partition",
        blocks,
        numbers,
        facts=findings.facts,
        warnings=samples.warnings + findings.warnings,
        files=FILES,
        columns=samples.columns,
    )


def _listed(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _block_table(findings: PartitionFindings) -> Table:
    """Each block, then all samples under one model."""
    partition, n = findings.partition, len(findings.samples)
    names, counts = source_counts(findings)
    rows = []
    for k, (name, size) in enumerate(zip(findings.block_names, partition.sizes, strict=True)):
        own = findings.own_responsibility[partition.block == k]
        cells = [
            f"{size:,}",
            share(size / n),
            number(float(partition.variance[k])),
            number(float(own.mean())) if size else "–",
        ]
        if names:
            best = int(counts[k].argmax())
            part = f"{100 * counts[k, best] / max(1, size):.0f} %"
            cells.append(f"{names[best]} ({part})")
        rows.append(Row(name, tuple(cells)))
    together = (f"{n:,}", "100 %", number(partition.variance_together), *["–"] * (1 + bool(names)))
    rows.append(Row("together", together))
    columns = ("block", "samples", "share", "V", "mean responsibility", "largest source")
    return Table("Blocks", columns[: 5 + bool(names)], tuple(rows), in_terminal=True)


def _figures(findings: PartitionFindings) -> Pair:
    """The figures of the whole partition, and the samples of each source in each block."""
    rows = tuple(Row(name, (value,)) for name, value in _known_figures(findings))
    tables = [Table("The partition in figures", ("", "value"), rows, in_terminal=True)]
    names, counts = source_counts(findings)
    if 1 < len(names) <= MAX_SOURCES:
        title = "Samples of each source"
        lines = tuple(
            Row(name, tuple(f"{n:,}" for n in row))
            for name, row in zip(findings.block_names, counts, strict=True)
        )
        tables.append(Table(title, ("block", *names), lines, caption=title, wraps=False))
    return Pair(tuple(tables))


def _known_figures(findings: PartitionFindings) -> list[tuple[str, str]]:
    partition, router, metric = findings.partition, findings.router, findings.metric
    entropy, most = number(partition.entropy), number(math.log(partition.n_blocks))
    rows = [("entropy of the blocks, nats", f"{entropy} of log K = {most}")]
    for k, value in sorted(partition.held_out.items()):
        text = f"{value:.3f}".replace("-", "−") + " (chosen)" * (k == partition.n_blocks)
        rows.append((f"held-out log-likelihood, K = {k}", text))
    if partition.n_blocks > 1:
        rows += [
            ("block depends on the input", "yes" if partition.is_gated else "no"),
            ("gain of a router", f"{router.gain:.3f} ± {router.gain_error:.3f}"),
        ]
    if math.isfinite(router.routed):
        rows += [
            (f"validation {metric}, one model", f"{router.single:.3f}"),
            (f"validation {metric}, a model a block", f"{router.routed:.3f}"),
        ]
    if math.isfinite(findings.agreement):
        rows += [
            ("adjusted Rand index with the sources", f"{findings.agreement:.3f}"),
            ("the same, models of the true blocks", f"{findings.oracle:.3f}"),
        ]
    return rows


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
