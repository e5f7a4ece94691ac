"""Everything a comparison of runs found out, gathered for its page, table and summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Int

from datassay.results import result
from datassay.score.compare.consensus import Consensus

# What a run was, in the order to show; the rest of its facts are of its own page.
RUN_FACTS = (
    "Data", "Model", "Linearised training", "Information", "Label noise", "Adversarial samples",
    "Seed",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One run as its folder tells of it.

    Attributes:
        name: of the run: its folder.
        n_samples: that it scored.
        n_suspects: labels that it suspects.
        facts: what was run and on what, from its summary; empty where there is none.
    """

    name: str
    n_samples: int
    n_suspects: int
    facts: dict[str, str]


@result
class ConsensusFindings:
    """Several runs' scores of the c samples they share.

    Attributes:
        consensus: the scores, joined by id.
        runs: [r], in the same order.
        label: [c], as the first run has it, ready to show.
        suggested: [c], the label that most of the runs that suspect it suggest; "" where none does.
        relabelled: [c], whether the runs have different labels.
        wrong: [c], whether the first run's label is wrong; None where the truth is not known.
        facts: what was compared, name to value, in the order to show.
        warnings: what the reader must know before trusting the figures.
    """

    consensus: Consensus
    runs: tuple[ComparedRun, ...]
    label: np.ndarray
    suggested: np.ndarray
    relabelled: Bool[np.ndarray, " c"]
    wrong: Bool[np.ndarray, " c"] | None = None
    facts: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def votes(findings: ConsensusFindings) -> Int[np.ndarray, " c"]:
    """[c], 0 to r: how many runs suspect each label; 0 where its label is not the same in all."""
    return np.where(findings.relabelled, 0, findings.consensus.votes)


def differ_by_chance(findings: ConsensusFindings) -> bool:
    """Whether all runs name the same network and training, other seeds, and no label differs."""
    known = all("Seed" in run.facts for run in findings.runs)
    return known and set(unlike_facts(findings.runs)) <= {"Seed"} and not findings.relabelled.any()


def unlike_facts(runs: Sequence[ComparedRun]) -> list[str]:
    """In what the runs differ: names among RUN_FACTS."""
    return [name for name in RUN_FACTS if len({run.facts.get(name) for run in runs}) > 1]


def shared_facts(runs: Sequence[ComparedRun]) -> dict[str, str]:
    """In what the runs are alike: name to value, of those among RUN_FACTS."""
    unlike, facts = unlike_facts(runs), runs[0].facts
    return {name: facts[name] for name in RUN_FACTS if name in facts and name not in unlike}


def lowest_pair(correlations: np.ndarray) -> tuple[float, int, int]:
    """The two runs that agree least: their correlation and their places in [r, r]."""
    above = np.where(np.triu(np.ones_like(correlations, bool), 1), correlations, np.inf)
    i, j = np.unravel_index(above.argmin(), above.shape)
    return float(correlations[i, j]), int(i), int(j)
