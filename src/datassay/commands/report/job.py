"""The job of `datassay report`: read what several runs wrote, and compare it sample by sample."""

import shlex
from collections import Counter
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Int

from datassay.act.review.gain import GainRow, ReviewGain
from datassay.commands.finished import SCORES, SUMMARY, check_columns, read_scores, read_summary
from datassay.commands.frame import Findings
from datassay.commands.report.command import ReportSettings
from datassay.errors import DataError
from datassay.optional import read_entry, select_rows, text_if
from datassay.progress import Progress, silent
from datassay.report.wording import number, percent
from datassay.results import result
from datassay.score.compare.consensus import Consensus, RunScores, consensus

NEEDED = ("id", "label", "suggested_label", "information", "label_issue_score", "is_issue")
NUMBERS = {"information": pa.float64(), "label_issue_score": pa.float64(), "is_issue": pa.bool_()}
# If a larger share of labels differs between runs, their ids likely name different samples.
UNLIKE = 0.5

# What a run was, in the order to show; the rest of its facts are of its own page.
RUN_FACTS = (
    "Data", "Model", "Linearised training", "Information", "Label noise", "Adversarial samples",
    "Seed",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A run, as its folder describes it."""

    name: str  # of the run: its folder
    folder: str  # its path, quoted
    n_samples: int  # that it scored
    n_suspects: int  # labels that it suspects
    facts: dict[str, str]  # what was run and on what, from its summary; empty where there is none
    # What was gained since the run before it, in words and measured; empty of a run without one.
    gained: str = ""
    gain: ReviewGain | None = None


@result
class ConsensusFindings(Findings):
    """Several runs' scores of the c samples they share."""

    consensus: Consensus  # the scores, joined by id
    runs: tuple[ComparedRun, ...]  # [r], in the same order
    label: np.ndarray  # [c], as the first run has it, ready to show
    # [c], the label that most of the runs that suspect it suggest; "" where none does
    suggested: np.ndarray
    relabelled: Bool[np.ndarray, " c"]  # [c], whether the runs have different labels
    # [c], whether the first run's label is wrong; None where the truth is not known
    is_wrong: Bool[np.ndarray, " c"] | None = None

    @property
    def votes(self) -> Int[np.ndarray, " c"]:
        """The number of runs that suspect each label; 0 where labels differ between runs."""
        return np.where(self.relabelled, 0, self.consensus.votes)

    @property
    def voted(self) -> list[Bool[np.ndarray, " c"]]:
        """[r + 1] masks of the samples that so many runs suspect, where labels do not differ."""
        return [(self.votes == k) & ~self.relabelled for k in range(len(self.runs) + 1)]

    @property
    def unlike(self) -> list[str]:
        """The names among RUN_FACTS in which the runs differ."""
        return [name for name in RUN_FACTS if len({r.facts.get(name) for r in self.runs}) > 1]


def run(settings: ReportSettings, progress: Progress = silent) -> ConsensusFindings:
    """Compute everything that `datassay report` shows, without writing anything."""
    settings.refuse(only_plan=False)
    folders = settings.folders
    names = [folder.resolve().name for folder in folders]
    if len(set(names)) < len(names):
        names = list(map(str, folders))
    tables = [_read_valid_scores(folder) for folder in folders]
    scores = [
        RunScores(
            ids=np.array(table["id"].to_pylist()),
            information=table["information"].to_numpy(),
            issue_score=table["label_issue_score"].to_numpy(),
            is_issue=table["is_issue"].to_numpy(),
        )
        for table in tables
    ]
    joined = consensus(dict(zip(names, scores, strict=True)))
    pairs = list(zip(tables, joined.positions, strict=True))
    labels = np.stack([_labels(table)[positions] for table, positions in pairs])
    suggested = np.stack([_format_labels(table["suggested_label"])[rows] for table, rows in pairs])
    # What most of the runs that suspect a label suggest instead; of equally many the first.
    suggestions = (suggested[joined.is_issue[:, c], c].tolist() for c in range(len(joined.ids)))
    majority = [Counter(s).most_common(1)[0][0] if s else "" for s in suggestions]
    table = tables[0]
    is_wrong = None
    if {"true_label", "class_name"} <= set(table.column_names):
        is_wrong = np.array(table["true_label"].to_pylist()) != _labels(table)
    relabelled = (labels != labels[0]).any(0)
    share = float(relabelled.mean())
    warning = (
        f"{percent(round(share, 3))} of the shared samples have different labels in different "
        "runs: their ids may name different samples."
    )
    findings = ConsensusFindings(
        consensus=joined,
        runs=tuple(
            ComparedRun(
                name,
                shlex.quote(str(folder)),
                len(s.ids),
                int(s.is_issue.sum()),
                *_describe_run(folder),
            )
            for name, s, folder in zip(names, scores, folders, strict=True)
        ),
        label=labels[0],
        relabelled=relabelled,
        suggested=np.array(majority),
        is_wrong=select_rows(is_wrong, joined.positions[0]),
        warnings=(warning,) if share > UNLIKE else (),
    )
    facts = findings.runs[0].facts
    shared = {n: facts[n] for n in RUN_FACTS if n in facts and n not in findings.unlike}
    closing = {"Version": version("datassay"), "Command": settings.command}
    return replace(
        findings, facts={"Samples": f"{len(joined.ids):,} in common", **shared, **closing}
    )


def _read_valid_scores(folder: Path) -> pa.Table:
    """Read a run's scores; raise if a needed column is missing or has a missing value."""
    table = read_scores(folder)
    path = folder / SCORES
    check_columns(folder, table, NEEDED)
    for name in NEEDED:
        column = table[name]
        kind = NUMBERS.get(name)
        is_valid = not column.null_count and kind in {None, column.type}
        if not is_valid or (kind is not None and not np.isfinite(column.to_numpy()).all()):
            value = "value"
            if kind is not None:
                value = f"finite {kind}"
            raise DataError(
                f"column {name} of {path} must hold a {value} in every row; it does not. Run again."
            )
    return table


def _labels(table: pa.Table) -> np.ndarray:
    """Return class names, or targets as text."""
    return _format_labels(table["class_name" if "class_name" in table.column_names else "label"])


def _format_labels(values: pa.ChunkedArray) -> np.ndarray:
    """Return labels as text, [n]: class names unchanged, targets as rounded numbers."""

    def text(value: object) -> str:
        if isinstance(value, str):
            return value
        return ", ".join(number(float(v)) for v in np.atleast_1d(np.array(value)))

    return np.array([text(value) for value in values.to_pylist()])


def _describe_run(folder: Path) -> tuple[dict[str, str], str, ReviewGain | None]:
    """Return a run's facts, its verdict if it came after a review, and what that gained."""
    path = folder / SUMMARY
    if not path.is_file():
        return {}, "", None
    summary = read_summary(folder)
    facts = read_entry(summary, "facts")
    if not isinstance(facts, dict):
        raise DataError(f"{path} must hold an object with facts, as the run wrote it; it does not.")
    before = read_entry(summary, "before")
    gained = text_if(before, str(read_entry(summary, "verdict")))
    gain = read_entry(before, "gain")
    if gain:
        try:
            gain = ReviewGain(**gain | {"rows": tuple(GainRow(**row) for row in gain["rows"])})
        except (KeyError, TypeError) as error:
            raise DataError(
                f"{path} must hold the gain of a review as this version writes it; it does not. "
                "Run it again."
            ) from error
    return {str(name): str(value) for name, value in facts.items()}, gained, gain or None
