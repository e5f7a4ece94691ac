"""The files of a comparison of runs: table and summary."""

from __future__ import annotations

from dataclasses import asdict

import pyarrow as pa

from datassay.commands.report.findings import ConsensusFindings, votes
from datassay.report.page import Page
from datassay.report.tables import column, standard_json
from datassay.score.compare.stability import Stability

FILES = {"consensus.parquet": "every shared sample", "summary.json": "the figures above"}


def files(findings: ConsensusFindings, page: Page) -> dict[str, pa.Table | str]:
    """What stands beside the page."""
    return {"consensus.parquet": _table(findings), "summary.json": _summary(findings, page)}


def _table(findings: ConsensusFindings) -> pa.Table:
    """One row a shared sample, in the first run's order."""
    # id, label (the first run's, as shown), suggested_label (empty where no run suspects it),
    # relabelled, mean_rank, rank_range, votes, each run's scores, and is_wrong where known.
    table = findings.consensus.to_table()
    table = table.add_column(1, "label", column(findings.label))
    table = table.add_column(2, "suggested_label", column(findings.suggested))
    table = table.add_column(3, "relabelled", pa.array(findings.relabelled))
    if findings.wrong is not None:
        table = table.append_column("is_wrong", pa.array(findings.wrong))
    return table


def _summary(findings: ConsensusFindings, page: Page) -> str:
    consensus, voted = findings.consensus, votes(findings)
    return standard_json({
        **page.head,
        "runs": [asdict(run) for run in findings.runs],
        "shared": len(consensus.ids),
        "relabelled": int(findings.relabelled.sum()),
        "suspected_by": [
            int(((voted == k) & ~findings.relabelled).sum()) for k in range(len(findings.runs) + 1)
        ],
        "information_agreement": _correlations(consensus.information_agreement),
        "issue_agreement": _correlations(consensus.issue_agreement),
        "reliability": consensus.reliability,
    })


def _correlations(agreement: Stability | None) -> dict[str, object] | None:
    if agreement is None:
        return None
    return {"spearman": agreement.spearman, "pearson": agreement.pearson}
