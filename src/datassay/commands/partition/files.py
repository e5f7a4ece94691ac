"""The files of a partition: table, summary and page."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

from datassay.commands.partition.advice import partition_advice
from datassay.commands.partition.findings import PartitionFindings, block_name, source_counts
from datassay.commands.partition.page import render_partition_page
from datassay.report.tables import column, labels, standard_json
from datassay.report.write import write_pages

PARTITION_FILES = ("blocks.parquet", "summary.json", "index.html")


def write_partition(findings: PartitionFindings, out: Path) -> Path:
    """Write PARTITION_FILES into a folder, all of them or none.

    Args:
        findings: one partition.
        out: the folder; made where it does not exist.

    Returns:
        The path of the page.

    Raises:
        SettingError: the folder cannot be written, or the disk is full.
    """
    parts = (
        block_table(findings),
        partition_summary(findings),
        render_partition_page(findings),
    )
    return write_pages(dict(zip(PARTITION_FILES, parts, strict=True)), out)


def block_table(findings: PartitionFindings) -> pa.Table:
    """Every sample's block.

    Args:
        findings: one partition.

    Returns:
        One row a sample, in the samples' order: id, block, responsibility (of that block), label
        (class index or target), class_name, and source where it is known.
    """
    samples, found = findings.samples, findings.found
    columns: dict[str, pa.Array] = {
        "id": column(samples.ids),
        "block": pa.array(found.block),
        "responsibility": pa.array(findings.own_responsibility),
        "label": column(samples.y),
    }
    if samples.is_classification:
        columns["class_name"] = labels(samples, samples.y)
    if samples.source is not None:
        columns["source"] = column(samples.source)
    return pa.table(columns)


def partition_summary(findings: PartitionFindings) -> str:
    """The partition in figures.

    Args:
        findings: one partition.

    Returns:
        JSON text.
    """
    found = findings.found
    names, counts = source_counts(findings)
    return standard_json({
        "facts": findings.facts,
        "warnings": findings.warnings,
        "advice": [asdict(a) for a in partition_advice(findings)],
        "blocks": found.n_blocks,
        "sizes": found.sizes,
        "variance": found.variance,
        "variance_together": found.variance_together,
        "entropy": found.entropy,
        "held_out": found.held_out,
        "is_gated": found.is_gated,
        "start": found.start,
        "is_hard": found.is_hard,
        "router": asdict(findings.router),
        "agreement": findings.agreement,
        "oracle_agreement": findings.oracle,
        "sources": {
            block_name(k): dict(zip(names, row, strict=True)) for k, row in enumerate(counts)
        }
        if names
        else None,
    })
