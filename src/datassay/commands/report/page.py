"""The page of a comparison of runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from datassay.commands.report.advice import consensus_advice, first_to_check
from datassay.commands.report.figures import consensus_figures, drawn_samples
from datassay.commands.report.findings import ConsensusFindings, unlike_facts, votes
from datassay.report.old_html import advice_cards, render
from datassay.report.page import Row
from datassay.report.wording import count, percent

N_SUSPECTS, N_CHANGED = 20, 10
METHOD = (
    (
        "Joined by id",
        "Only samples that every run scored are compared. Rows that were numbered by the reader "
        "match only as long as no row was removed before them: give --ids where that can happen.",
    ),
    (
        "Rank correlation",
        "Spearman's, between the scores of two runs over the shared samples (S1 App. A.4, Fig. 5, "
        "has Pearson's; a few samples of large information make most of that).",
    ),
    (
        "Reliability of the mean rank",
        "r ρ / (1 + (r − 1) ρ) with ρ the mean rank correlation of two of r runs (Spearman, Brown, "
        "1910): how well the mean over these runs would agree with that over as many others. It "
        "holds for runs that differ by chance, such as their seed, not for unlike networks.",
    ),
    (
        "Votes",
        "How many runs suspect a label, each by its own rule (its label issue score is above 0). "
        "Samples that have different labels in different runs have none.",
    ),
)


def render_consensus_page(findings: ConsensusFindings) -> str:
    """The comparison as one self-contained HTML page; see `html.render` for what it promises.

    Args:
        findings: of two runs or more.

    Returns:
        HTML.
    """
    return render(
        "consensus.html", ("figures.js",), _context(findings), consensus_figures(findings)
    )


def _context(findings: ConsensusFindings) -> dict[str, object]:
    found, names = findings.found, findings.found.names
    sections = [("next", "What to do next"), ("runs", "The runs"), ("agreement", "Do they agree")]
    if found.information_agreement is None and found.issue_agreement is None:
        sections.pop()
    sections += [("labels", "Suspected labels"), ("changed", "Where they differ")]
    n, drawn = len(found.ids), int(drawn_samples(findings).sum())
    n_suspects = int((votes(findings) > 0).sum())
    return {
        "brand": "datassay report · what several runs say of the same samples",
        "title": ", ".join(names[:3]) + (f" and {len(names) - 3} more" if names[3:] else ""),
        "lead": f"{count(len(names), 'run')}, {count(n, 'sample')} in common",
        "facts": findings.facts,
        "warnings": findings.warnings,
        "advice": advice_cards(consensus_advice(findings)),
        "gallery_view": "",
        "sections": [*sections, ("method", "Method")],
        "run_columns": run_columns(findings),
        "run_rows": run_rows(findings),
        "vote_columns": vote_columns(findings),
        "vote_rows": vote_rows(findings),
        "vote_note": _vote_note(findings),
        "suspect_columns": sample_columns(findings, "suggested", "votes"),
        "suspect_rows": suspect_rows(findings),
        "suspect_note": f"{min(n_suspects, N_SUSPECTS):,} of {n_suspects:,} suspected, with the "
        "ranks of their information. All are in consensus.parquet.",
        "changed_columns": sample_columns(findings, "apart"),
        "changed_rows": changed_rows(findings),
        "samples_title": f"Information in {names[0]} and in {names[-1]}",
        "samples_note": f"{drawn:,} of {n:,} samples are drawn." if drawn < n else "",
        "method": METHOD,
    }


def _vote_note(findings: ConsensusFindings) -> str:
    changed = int(findings.relabelled.sum())
    if not changed:
        return ""
    return f"Not counted: {count(changed, 'sample')} whose label is another in another run."


def run_columns(findings: ConsensusFindings) -> tuple[str, ...]:
    """Headings of `run_rows`: beside counts only what differs.

    Args:
        findings: of two runs or more.

    Returns:
        The first is of the row names.
    """
    return ("run", "samples", "suspects", *(n.lower() for n in unlike_facts(findings.runs)))


def run_rows(findings: ConsensusFindings) -> list[Row]:
    """One line a run.

    Args:
        findings: of two runs or more.

    Returns:
        Cells under `run_columns`.
    """
    return [
        Row(
            run.name,
            (
                f"{run.n_samples:,}",
                f"{run.n_suspects:,}",
                *(run.facts.get(name, "–") for name in unlike_facts(findings.runs)),
            ),
        )
        for run in findings.runs
    ]


def vote_columns(findings: ConsensusFindings) -> tuple[str, ...]:
    """Headings of `vote_rows`.

    Args:
        findings: of two runs or more.

    Returns:
        The first is of the row names.
    """
    return ("suspected by", "samples") + (("really wrong",) if findings.wrong is not None else ())


def vote_rows(findings: ConsensusFindings) -> list[Row]:
    """How many samples of one label so many runs suspect, and how many of those are wrong.

    Args:
        findings: of two runs or more.

    Returns:
        One line a number of votes, most first; empty where no label is suspected.
    """
    voted, wrong = votes(findings), findings.wrong
    rows = []
    for k in range(len(findings.runs), -1, -1):
        inside = (voted == k) & ~findings.relabelled
        cells = (f"{int(inside.sum()):,}",)
        if wrong is not None:
            share = f" ({percent(round(float(wrong[inside].mean()), 3))})" if inside.any() else ""
            cells += (f"{int(wrong[inside].sum()):,}{share}",)
        rows.append(Row(count(k, "run") if k else "no run", cells))
    return rows if voted.any() else []


def sample_columns(findings: ConsensusFindings, *figures: str) -> tuple[str, ...]:
    """Headings of lines that show single samples.

    Args:
        findings: of two runs or more.
        figures: what stands between the label and the ranks.

    Returns:
        The first is of the row names.
    """
    return ("id", "label", *figures, *(f"rank in {name}" for name in findings.found.names))


def suspect_rows(findings: ConsensusFindings) -> list[Row]:
    """The labels to check first.

    Args:
        findings: of two runs or more.

    Returns:
        Twenty at most, most votes first.
    """
    chosen = first_to_check(findings)[:N_SUSPECTS]
    return _sample_rows(findings, chosen, findings.suggested, votes(findings))


def changed_rows(findings: ConsensusFindings) -> list[Row]:
    """The samples whose ranks lie furthest apart.

    Args:
        findings: of two runs or more.

    Returns:
        Ten at most, furthest first; none whose rank is the same in all runs.
    """
    apart = findings.found.rank_range
    order = np.argsort(-apart, kind="stable")[:N_CHANGED]
    return _sample_rows(findings, order[apart[order] > 0], [f"{100 * a:.0f} %" for a in apart])


def _sample_rows(
    findings: ConsensusFindings, chosen: np.ndarray, *figures: Sequence | np.ndarray
) -> list[Row]:
    found = findings.found
    return [
        Row(
            str(found.ids[c]),
            (
                str(findings.label[c]),
                *(str(figure[c]) for figure in figures),
                *(f"{100 * share:.0f} %" for share in found.rank[:, c]),
            ),
        )
        for c in chosen
    ]
