"""The files of a partition: table and summary."""

from __future__ import annotations

from dataclasses import asdict

import pyarrow as pa

from datassay.commands.partition.job import PartitionFindings, source_counts
from datassay.report.page import Page
from datassay.report.tables import column, labels, standard_json

FILES = {"blocks.parquet": "every sample's block", "summary.json": "the figures above"}


def files(findings: PartitionFindings, page: Page) -> dict[str, pa.Table | str]:
    """What stands beside the page: file name → table or text."""
    return {"blocks.parquet": block_table(findings), "summary.json": _summary(findings, page)}


def block_table(findings: PartitionFindings) -> pa.Table:
    """Every sample's block.

    Returns:
        One row a sample, in the samples' order: id, block, responsibility (of that block), label
        (class index or target), class_name, and source where it is known.
    """
    samples = findings.samples
    columns: dict[str, pa.Array] = {
        "id": column(samples.ids),
        "block": pa.array(findings.partition.block),
        "responsibility": pa.array(findings.own_responsibility),
        "label": column(samples.y),
    }
    if samples.is_classification:
        columns["class_name"] = labels(samples, samples.y)
    if samples.source is not None:
        columns["source"] = column(samples.source)
    return pa.table(columns)


def _summary(findings: PartitionFindings, page: Page) -> str:
    partition = findings.partition
    names, counts = source_counts(findings)
    rows = [dict(zip(names, row, strict=True)) for row in counts]
    return standard_json({
        **page.head,
        "blocks": partition.n_blocks,
        "sizes": partition.sizes,
        "variance": partition.variance,
        "variance_together": partition.variance_together,
        "entropy": partition.entropy,
        "held_out": partition.held_out,
        "is_gated": partition.is_gated,
        "start": partition.start,
        "is_hard": partition.is_hard,
        "router": asdict(findings.router),
        "agreement": findings.agreement,
        "oracle_agreement": findings.oracle,
        "sources": dict(zip(findings.block_names, rows, strict=True)) if names else None,
    })
