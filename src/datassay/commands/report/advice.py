"""What a comparison of runs says to do next: each sentence follows from what its page shows."""

from __future__ import annotations

import numpy as np

from datassay.commands.report.findings import (
    ConsensusFindings,
    differ_by_chance,
    lowest_pair,
    votes,
)
from datassay.report.advice import N_CHECK_FIRST, Advice, Severity
from datassay.report.wording import count, number, percent
from datassay.score.compare.consensus import mean_pair

# Mean rank correlations from which on two runs tell the same story, or not at all.
SAME, UNLIKE = 0.8, 0.5


def advice(findings: ConsensusFindings) -> tuple[Advice, ...]:
    """What to do next: suspected labels, changed ones, how far information is sure."""
    relabelled = [_relabelled(findings)] if findings.relabelled.any() else []
    return (_labels(findings), *relabelled, _information(findings))


def first_to_check(findings: ConsensusFindings) -> np.ndarray:
    """Positions of suspects, most votes first, then by mean rank of the label issue score."""
    ranks = (
        findings.consensus.issue_score.argsort(1, kind="stable").argsort(1, kind="stable").mean(0)
    )
    voted = votes(findings)
    order = np.lexsort((-ranks, -voted))
    return order[voted[order] > 0]


def _labels(findings: ConsensusFindings) -> Advice:
    r, voted, same = len(findings.runs), votes(findings), int((~findings.relabelled).sum())
    n_all, n_some = int((voted == r).sum()), int((voted > 0).sum())
    if not n_some:
        sentence = f"No run suspects any of the {same:,} labels that are the same in all."
        return Advice("label errors", "fine", "No suspected label errors", sentence)
    each = "both runs" if r == 2 else f"all {r} runs"
    start = " Start with those." if n_all else ""
    sentence = (
        f"{count(n_some, 'label')} {'is' if n_some == 1 else 'are'} suspected by a run, "
        f"{f'{n_all:,}' if n_all else 'none'} of them by {each}.{start} What one run suspects "
        "alone can be chance."
    )
    return Advice(
        kind="label errors",
        severity="act" if n_all else "look",
        headline=f"{count(n_all, 'label') if n_all else 'No label'} suspected by {each}",
        sentence=sentence + _truth(findings),
        ids=tuple(str(i) for i in findings.consensus.ids[first_to_check(findings)[:N_CHECK_FIRST]]),
    )


def _truth(findings: ConsensusFindings) -> str:
    voted, wrong = votes(findings), findings.wrong
    if wrong is None or not (voted == len(findings.runs)).any():
        return ""
    whole, some = wrong[voted == len(findings.runs)].mean(), wrong[voted > 0].mean()
    return (
        f" The true labels are known: {percent(round(float(whole), 3))} of the former are wrong, "
        f"and {percent(round(float(some), 3))} of all that any run suspects."
    )


def _relabelled(findings: ConsensusFindings) -> Advice:
    changed, suspected = findings.relabelled, findings.consensus.is_issue
    before, after = int(suspected[0][changed].sum()), int(suspected[-1][changed].sum())
    first, last = findings.runs[0].name, findings.runs[-1].name
    return Advice(
        kind="labels that changed",
        severity="fine" if after <= before else "look",
        headline=f"{count(int(changed.sum()), 'label')} changed between the runs",
        sentence=(
            f"{first} suspects {before:,} of these samples, {last} {after:,}. Of the labels that "
            f"stayed, {first} suspects {int(suspected[0][~changed].sum()):,} and {last} "
            f"{int(suspected[-1][~changed].sum()):,}."
        ),
    )


def _information(findings: ConsensusFindings) -> Advice:
    consensus, r = findings.consensus, len(findings.runs)
    if consensus.information_agreement is None:
        sentence = "In one run all samples carry the same information: there is no order."
        return Advice("agreement", "look", "Information cannot be compared", sentence)
    correlations = consensus.information_agreement.spearman
    mean = mean_pair(correlations)
    lowest, i, j = lowest_pair(correlations)
    severity: Severity = "fine" if mean >= SAME else "look" if mean >= UNLIKE else "act"
    sentence = f"The rank correlation of the two runs is {number(mean)}. "
    if r > 2:
        sentence = (
            f"The rank correlation of two runs is {number(mean)} on average, lowest "
            f"{number(lowest)} of {consensus.names[i]} and {consensus.names[j]}. "
        )
    if mean >= SAME:
        sentence += "Any of them tells which samples inform most."
    else:
        sentence += "Which samples inform most depends on the run: drop none by one run alone."
    if differ_by_chance(findings):
        sentence += (
            f" The mean rank over them, in consensus.parquet, has a reliability of "
            f"{consensus.reliability:.2f}."
        )
    headline = f"Ranks of information agree {number(mean)}"
    return Advice("agreement", severity, headline, sentence)
