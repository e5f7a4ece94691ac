"""The page of a partition."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from datassay.commands.partition import figures
from datassay.commands.partition.advice import advice
from datassay.commands.partition.files import FILES
from datassay.commands.partition.findings import PartitionFindings, source_counts
from datassay.commands.partition.gallery import gallery
from datassay.commands.partition.method import notes
from datassay.report.page import Figure, Page, Pair, Row, Section, Table, Text
from datassay.report.wording import count, number, percent

MAX_SOURCES = 12


def page(findings: PartitionFindings) -> Page:
    """Everything that the command says."""
    samples, n_blocks = findings.samples, findings.partition.n_blocks
    own = "Labels" if samples.is_classification else "Targets"
    targets = Figure("targets", figures.target_figure(findings), "Labels or targets in each block")
    return Page(
        brand="datassay partition · which training samples follow the same rule",
        title=samples.name,
        lead=f"{count(len(samples), 'sample')} in {count(n_blocks, 'block')}",
        facts=findings.facts,
        warnings=findings.samples.warnings + findings.warnings,
        advice=advice(findings),
        sections=(
            _blocks(findings),
            _map(findings),
            Section("targets", own, f"{own} in each block", (targets,)),
            Section("agreement", "In figures", "In figures", (_figures(findings),)),
            Section("gallery", "Samples", "Samples that belong most surely", (gallery(findings),)),
        ),
        method=notes(findings),
        files=FILES,
        columns=findings.samples.columns,
    )


def _blocks(findings: PartitionFindings) -> Section:
    drawn = Figure(
        "variance", figures.variance_figure(findings), "Variance of influence of each block",
        title="Variance of influence",
    )  # fmt: skip
    if len(findings.partition.held_out) > 1:
        held_out = Figure(
            "held_out", figures.held_out_figure(findings),
            "Held-out log-likelihood against the number of blocks", title="How many blocks",
        )  # fmt: skip
        drawn = Pair((held_out, drawn))
    return Section("blocks", "Blocks", "Blocks", (
        Text("V is the variance of influence between samples: under one model for all of them "
             "together, and in each block under a model of its own."),
        _block_table(findings),
        drawn,
    ))  # fmt: skip


def _block_table(findings: PartitionFindings) -> Table:
    """Each block, then all samples under one model."""
    partition, n = findings.partition, len(findings.samples)
    names, counts = source_counts(findings)
    rows = []
    for k, (name, size) in enumerate(zip(findings.block_names, partition.sizes, strict=True)):
        own = findings.own_responsibility[partition.block == k]
        cells = [
            f"{size:,}",
            percent(round(float(size / n), 3)),
            number(float(partition.variance[k])),
            number(float(own.mean())) if size else "–",
        ]
        if names:
            best = int(counts[k].argmax())
            part = percent(round(float(counts[k, best] / max(1, size)), 2))
            cells.append(f"{names[best]} ({part})")
        rows.append(Row(name, tuple(cells)))
    together = (f"{n:,}", "100 %", number(partition.variance_together), *["–"] * (1 + bool(names)))
    rows.append(Row("together", together))
    columns = ("block", "samples", "share", "V", "mean responsibility", "largest source")
    return Table("Blocks", columns[: 5 + bool(names)], tuple(rows), in_terminal=True)


def _map(findings: PartitionFindings) -> Section:
    places, explained = figures.map_places(findings)
    note = (
        "Each point is a sample, in the plane of the two principal components of the standardised "
        f"inputs, which hold {percent(round(explained, 2))} of their variance."
    )
    if findings.router.is_informative:
        note += (
            " The inputs tell the blocks apart, perhaps along a direction that this plane shows "
            "only in part."
        )
    elif findings.partition.n_blocks > 1:
        note += (
            " The inputs do not tell the blocks apart, so they overlap here: they differ in the "
            "labels that like inputs get."
        )
    block, names = findings.partition.block, findings.block_names
    text = "Two principal components of the inputs, coloured by block"
    drawn = Figure("map", figures.map_figure(places, block, names, explained), text)
    if findings.samples.source is not None:
        known, of_source = np.unique(findings.samples.source, return_inverse=True)
        if 1 < len(known) <= len(figures.BLOCK_COLOURS):
            sources = [str(source) for source in known]
            by_source = Figure(
                "sources", figures.map_figure(places, of_source, sources, explained),
                "The same map, coloured by source", title="By source, as known",
            )  # fmt: skip
            drawn = Pair((replace(drawn, title="By block, as found"), by_source))
    return Section("map", "Map", "Where the blocks lie", (Text(note), drawn))


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
