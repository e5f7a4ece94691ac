"""The job of `datassay report`: read what several runs left, and compare it sample by sample."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Bool, Int

from datassay.commands.report.command import ReportSettings
from datassay.data.source import reading
from datassay.errors import DataError
from datassay.progress import Progress, silent
from datassay.report.wording import number, percent
from datassay.results import result
from datassay.score.compare.consensus import Consensus, RunScores, consensus
from datassay.store.folders import heal

SCORES, SUMMARY = "scores.parquet", "summary.json"
NEEDED = ("id", "label", "suggested_label", "information", "label_issue_score", "is_issue")
NUMBERS = {"information": pa.float64(), "label_issue_score": pa.float64(), "is_issue": pa.bool_()}
# Where more labels than this differ, the ids likely name other samples.
UNLIKE = 0.5

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


def run(settings: ReportSettings, progress: Progress = silent) -> ConsensusFindings:
    """Everything `datassay report` finds, without writing anything."""
    named = _named(settings.folders)
    tables = {name: _scores(path) for name, path in named.items()}
    joined = consensus({name: _run_scores(table) for name, table in tables.items()})
    labels = np.stack([
        _labels(table)[places]
        for table, places in zip(tables.values(), joined.positions, strict=True)
    ])
    runs = tuple(
        ComparedRun(
            name=name,
            n_samples=table.num_rows,
            n_suspects=int(table["is_issue"].to_numpy().sum()),
            facts=_facts(named[name]),
        )
        for name, table in tables.items()
    )
    relabelled = (labels != labels[0]).any(0)
    first = next(iter(tables.values()))
    return ConsensusFindings(
        consensus=joined,
        runs=runs,
        label=labels[0],
        relabelled=relabelled,
        suggested=_suggested(list(tables.values()), joined),
        wrong=_wrong(first, joined.positions[0]),
        facts={
            "Samples": f"{len(joined.ids):,} in common",
            **shared_facts(runs),
            "Version": version("datassay"),
            "Command": settings.command,
        },
        warnings=_warnings(float(relabelled.mean())),
    )


def _named(folders: Sequence[Path]) -> dict[str, Path]:
    """A name for each: the folder's own where no two are alike, else its path."""
    if len({folder.resolve() for folder in folders}) < len(folders) or len(folders) < 2:
        raise DataError(
            "two or more different folders are needed to compare; got "
            f"{', '.join(map(str, folders)) or 'none'}. Name the folders that runs wrote to."
        )
    names = [folder.resolve().name for folder in folders]
    if len(set(names)) < len(names):
        names = [str(folder) for folder in folders]
    return dict(zip(names, folders, strict=True))


def _scores(folder: Path) -> pa.Table:
    path = folder / SCORES
    if not path.is_file():
        raise DataError(
            f"{folder} must hold {SCORES}, which datassay run and datassay score write; it does "
            "not. Name the folder that --out named."
        )
    with reading(path):
        heal(folder)  # a killed run may have left new tables beside older ones
        with pq.ParquetFile(path) as file:
            table = file.read()
    remedy = "Give the file as datassay run or datassay score wrote it."
    missing = [name for name in NEEDED if name not in table.column_names]
    if missing:
        raise DataError(
            f"{path} must have the columns {', '.join(NEEDED)}; it lacks {', '.join(missing)}. "
            + remedy
        )
    for name in NEEDED:
        column, kind = table[name], NUMBERS.get(name)
        right = not column.null_count and kind in {None, column.type}
        if not right or (kind is not None and not np.isfinite(column.to_numpy()).all()):
            what = "value" if kind is None else f"finite {kind}"
            raise DataError(
                f"column {name} of {path} must hold a {what} in every row; it does not. {remedy}"
            )
    return table


def _run_scores(table: pa.Table) -> RunScores:
    return RunScores(
        ids=np.array(table["id"].to_pylist()),
        information=table["information"].to_numpy(),
        issue_score=table["label_issue_score"].to_numpy(),
        is_issue=table["is_issue"].to_numpy(),
    )


def _labels(table: pa.Table) -> np.ndarray:
    """Class names, or targets as text."""
    named = "class_name" in table.column_names
    return np.array([_shown(v) for v in table["class_name" if named else "label"].to_pylist()])


def _suggested(tables: Sequence[pa.Table], joined: Consensus) -> np.ndarray:
    """What most of the runs that suspect a label suggest instead, the first of several; or ""."""
    suggested = np.stack([
        np.array([_shown(value) for value in table["suggested_label"].to_pylist()])[places]
        for table, places in zip(tables, joined.positions, strict=True)
    ])
    each = (suggested[joined.is_issue[:, c], c].tolist() for c in range(len(joined.ids)))
    return np.array([Counter(names).most_common(1)[0][0] if names else "" for names in each])


def _shown(value: object) -> str:
    """A class's name as it is, targets as numbers."""
    if isinstance(value, str):
        return value
    return ", ".join(number(float(v)) for v in np.atleast_1d(np.array(value)))


def _wrong(table: pa.Table, positions: np.ndarray) -> np.ndarray | None:
    """Whether each label differs from the true one; None without classes or truth."""
    if not {"true_label", "class_name"} <= set(table.column_names):
        return None
    wrong = np.array(table["true_label"].to_pylist()) != _labels(table)
    return wrong[positions]


def _facts(folder: Path) -> dict[str, str]:
    """What the run says of itself; nothing where its summary is gone."""
    path = folder / SUMMARY
    if not path.is_file():
        return {}
    with reading(path):
        summary = json.loads(path.read_text(encoding="utf-8"))
    facts = summary.get("facts") if isinstance(summary, dict) else None
    if not isinstance(facts, dict):
        raise DataError(f"{path} must hold an object with facts, as the run wrote it; it does not.")
    return {str(name): str(value) for name, value in facts.items()}


def _warnings(relabelled: float) -> tuple[str, ...]:
    if relabelled <= UNLIKE:
        return ()
    share = percent(round(relabelled, 3))
    return (
        f"{share} of the shared samples have different labels in different runs: their ids may "
        "name different samples.",
    )
