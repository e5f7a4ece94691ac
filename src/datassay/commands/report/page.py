"""The page of a comparison of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from datassay.commands.report.advice import advice, first_to_check
from datassay.commands.report.figures import agreement_figure, drawn_samples, sample_figure
from datassay.commands.report.files import FILES
from datassay.commands.report.findings import ConsensusFindings, unlike_facts, votes
from datassay.report.page import Block, Figure, Heading, Page, Pair, Row, Section, Table, Text
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
        "How many runs suspect a label, each by its own rule (more likely wrong than right). "
        "Samples that have different labels in different runs have none.",
    ),
)


def page(findings: ConsensusFindings) -> Page:
    """Everything that the command says."""
    consensus, advices = findings.consensus, advice(findings)
    names, shared = consensus.names, count(len(consensus.ids), "sample")
    sections = (_runs(findings), _agreement(findings), _labels(findings), _changed(findings))
    return Page(
        brand="datassay report · what several runs say of the same samples",
        title=", ".join(names[:3]) + (f" and {len(names) - 3} more" if names[3:] else ""),
        lead=f"{count(len(names), 'run')}, {shared} in common",
        facts=findings.facts,
        warnings=findings.warnings,
        advice=advices,
        sections=tuple(s for s in sections if s.blocks),
        method=METHOD,
        files=FILES,
        answer=tuple(f"{one.headline}. {one.sentence}" for one in advices),
    )


def _runs(findings: ConsensusFindings) -> Section:
    """One line a run: beside counts only what differs."""
    unlike = unlike_facts(findings.runs)
    rows = tuple(
        Row(r.name, (f"{r.n_samples:,}", f"{r.n_suspects:,}",
                     *(r.facts.get(name, "–") for name in unlike)))
        for r in findings.runs
    )  # fmt: skip
    columns = ("run", "samples", "suspects", *(name.lower() for name in unlike))
    return Section("runs", "The runs", "The runs", (Table("Runs", columns, rows),))


def _agreement(findings: ConsensusFindings) -> Section:
    """Maps of correlations; empty where no run orders its samples."""
    maps = (
        ("information", "Information", findings.consensus.information_agreement),
        ("issues", "Label issue score", findings.consensus.issue_agreement),
    )
    text = "Rank correlations of {} between every two runs"
    figures = tuple(
        Figure(name, agreement_figure(agreement), text.format(name), title=title)
        for name, title, agreement in maps
        if agreement is not None
    )
    blocks: tuple[Block, ...] = (
        Text("Rank correlation of every two runs: 1 is the same order of samples, 0 none in "
             "common."),
        Pair(figures),
    )  # fmt: skip
    return Section("agreement", "Do they agree", "Do they agree", blocks if figures else ())


def _labels(findings: ConsensusFindings) -> Section:
    changed, rows = int(findings.relabelled.sum()), vote_rows(findings)
    note = f"Not counted: {count(changed, 'sample')} whose label is another in another run."
    note = note if changed else ""
    blocks: tuple[Block, ...] = (Text(f"No run suspects a label. {note}".strip()),)
    if rows:
        columns = ("suspected by", "samples", *["really wrong"] * (findings.wrong is not None))
        votes_table = Table("Votes", columns, rows, note=note, in_terminal=True)
        blocks = (votes_table, Heading("Check first"), _suspects(findings))
    return Section("labels", "Suspected labels", "Suspected labels", blocks)


def vote_rows(findings: ConsensusFindings) -> tuple[Row, ...]:
    """How many labels so many runs suspect, most votes first, and how many of those are wrong."""
    voted, wrong = votes(findings), findings.wrong
    rows = []
    for k in range(len(findings.runs), -1, -1):
        inside = (voted == k) & ~findings.relabelled
        cells = (f"{int(inside.sum()):,}",)
        if wrong is not None:
            share = f" ({percent(round(float(wrong[inside].mean()), 3))})" if inside.any() else ""
            cells += (f"{int(wrong[inside].sum()):,}{share}",)
        rows.append(Row(count(k, "run") if k else "no run", cells))
    return tuple(rows) if voted.any() else ()


def _suspects(findings: ConsensusFindings) -> Table:
    """The labels to check first: twenty at most, most votes first."""
    voted = votes(findings)
    n, chosen = int((voted > 0).sum()), first_to_check(findings)[:N_SUSPECTS]
    note = (
        f"{len(chosen):,} of {n:,} suspected, with the ranks of their information. All are in "
        "consensus.parquet."
    )
    figures = {"suggested": findings.suggested, "votes": voted}
    return _sample_table("Suspects", findings, chosen, figures, note)


def _changed(findings: ConsensusFindings) -> Section:
    """The samples whose ranks lie furthest apart, ten at most, none of equal ranks."""
    names, apart = findings.consensus.names, findings.consensus.rank_range
    order = np.argsort(-apart, kind="stable")[:N_CHANGED]
    chosen, shares = order[apart[order] > 0], {"apart": [f"{100 * a:.0f} %" for a in apart]}
    blocks: list[Block] = [
        Text("Ranks are shares of the samples that inform less: 0 % is the least informative "
             "sample, 100 % the most."),
        _sample_table("Changed most", findings, chosen, shares),
    ]  # fmt: skip
    if (findings.consensus.information[[0, -1]] > 0).any(1).all():
        text = f"Information of each sample in {names[0]} and in {names[-1]}"
        title = f"Information in {names[0]} and in {names[-1]}"
        blocks.append(Figure("samples", sample_figure(findings), text, title=title))
        n, drawn = len(apart), int(drawn_samples(findings).sum())
        if drawn < n:
            blocks.append(Text(f"{drawn:,} of {n:,} samples are drawn.", note=True))
    return Section("changed", "Where they differ", "Where they differ most", tuple(blocks))


def _sample_table(
    name: str,
    findings: ConsensusFindings,
    chosen: np.ndarray,
    figures: Mapping[str, Sequence | np.ndarray],
    note: str = "",
) -> Table:
    """Single samples: id, label, the figures by their headings, and the rank in each run."""
    consensus = findings.consensus
    ranks = (f"rank in {run}" for run in consensus.names)
    rows = []
    for c in chosen:
        cells = (str(v[c]) for v in (findings.label, *figures.values()))
        shares = (f"{100 * share:.0f} %" for share in consensus.rank[:, c])
        rows.append(Row(str(consensus.ids[c]), (*cells, *shares)))
    return Table(name, ("id", "label", *figures, *ranks), tuple(rows), note=note)
