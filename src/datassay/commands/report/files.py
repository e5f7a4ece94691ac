"""The files of a comparison of runs: table, summary and page."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

from datassay.commands.report.advice import consensus_advice
from datassay.commands.report.findings import ConsensusFindings, votes
from datassay.commands.report.page import render_consensus_page
from datassay.report.tables import column, standard_json
from datassay.report.write import write_pages
from datassay.score.compare.stability import Stability

CONSENSUS_FILES = ("consensus.parquet", "summary.json", "index.html")


def write_consensus(findings: ConsensusFindings, out: Path) -> Path:
    """Write CONSENSUS_FILES into a folder, all of them or none.

    Args:
        findings: of two runs or more.
        out: the folder; made where it does not exist.

    Returns:
        The path of the page.

    Raises:
        SettingError: the folder cannot be written, or the disk is full.
    """
    parts = (consensus_table(findings), consensus_summary(findings))
    parts += (render_consensus_page(findings),)
    return write_pages(dict(zip(CONSENSUS_FILES, parts, strict=True)), out)


def consensus_table(findings: ConsensusFindings) -> pa.Table:
    """Every shared sample.

    Args:
        findings: of two runs or more.

    Returns:
        One row a sample, in the first run's order: id, label (the first run's, as shown),
        suggested_label (empty where no run suspects it), relabelled, mean_rank, rank_range, votes,
        each run's scores, and is_wrong where known.
    """
    table = findings.found.to_table()
    table = table.add_column(1, "label", column(findings.label))
    table = table.add_column(2, "suggested_label", column(findings.suggested))
    table = table.add_column(3, "relabelled", pa.array(findings.relabelled))
    if findings.wrong is not None:
        table = table.append_column("is_wrong", pa.array(findings.wrong))
    return table


def consensus_summary(findings: ConsensusFindings) -> str:
    """The comparison in figures.

    Args:
        findings: of two runs or more.

    Returns:
        JSON text.
    """
    found, voted = findings.found, votes(findings)
    return standard_json({
        "facts": findings.facts,
        "warnings": findings.warnings,
        "advice": [asdict(a) for a in consensus_advice(findings)],
        "runs": [asdict(run) for run in findings.runs],
        "shared": len(found.ids),
        "relabelled": int(findings.relabelled.sum()),
        "suspected_by": [
            int(((voted == k) & ~findings.relabelled).sum()) for k in range(len(findings.runs) + 1)
        ],
        "information_agreement": _agreement(found.information_agreement),
        "issue_agreement": _agreement(found.issue_agreement),
        "reliability": found.reliability,
    })


def _agreement(found: Stability | None) -> dict[str, object] | None:
    return None if found is None else {"spearman": found.spearman, "pearson": found.pearson}
