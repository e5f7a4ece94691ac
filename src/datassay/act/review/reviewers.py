"""Several reviewers of one run: a file of decisions each, put together, and where they disagree.

A reviewer without a name writes decisions.parquet, one with a name decisions.NAME.parquet beside
it. Two reviewers disagree about a sample if they would give it different labels, or only one would
remove it; "unsure" is no opinion.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from datassay.act.review.decisions import (
    FILE,
    KEEP,
    RELABEL,
    REMOVE,
    UNSURE,
    Decision,
    Decisions,
    read_decisions,
)
from datassay.errors import DataError, SettingError
from datassay.optional import text_if

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
NOBODY = "without a name"
SHOWN = 3  # samples in a message
WORDS = {KEEP: "keep", REMOVE: "remove"}


def file_of(reviewer: str) -> str:
    """Return a reviewer's file name of decisions; raise where the name makes no file name."""
    if reviewer and not NAME.fullmatch(reviewer):
        raise SettingError(
            "reviewer must be 1 to 40 letters, digits, - and _, since a file is named by it; got "
            f"{reviewer!r:.60}. Give a short name, such as anna."
        )
    if reviewer:
        return f"decisions.{reviewer}.parquet"
    return FILE


def files_in(folder: Path) -> list[Path]:
    """Return the files of decisions in a run's folder, the one without a name first."""
    paths = [
        path
        for path in sorted(folder.glob("decisions.*.parquet"))
        if NAME.fullmatch(path.name.removeprefix("decisions.").removesuffix(".parquet"))
    ]
    return [path for path in [folder / FILE, *paths] if path.is_file()]


def read_all(folder: Path) -> list[Decisions]:
    """Read the decisions of every reviewer of a run; raise if they are about different data."""
    files = files_in(folder)
    reviews = [read_decisions(path) for path in files]
    if len({review.digest for review in reviews}) > 1:
        names = ", ".join(path.name for path in files)
        raise DataError(
            f"the decisions in {folder} must be about the same data; {names} are not. Move those "
            "about other data to another folder."
        )
    return reviews


def disagreements(reviews: Sequence[Decisions]) -> dict[str | int, tuple[Decision, ...]]:
    """Return {sample id: decisions} for samples that reviewers decide differently."""
    by_id: dict[str | int, list[Decision]] = {}
    for decision in (d for review in reviews for d in review.decisions):
        by_id.setdefault(decision.id, []).append(decision)
    return {key: tuple(group) for key, group in by_id.items() if len(_votes(group)) > 1}


def combine(reviews: Sequence[Decisions], *, majority: bool = False) -> Decisions:
    """Return all reviewers' decisions as one set, at most one per sample.

    Args:
        reviews: of each reviewer, about the same data; at least one.
        majority: whether what most decided holds where they disagree; in a tie nobody is sure.

    Returns:
        All decisions, those of the first reviewer first.

    Raises:
        DataError: reviewers disagree, and not the majority was asked for.
    """
    disputed = disagreements(reviews)
    if disputed and not majority:
        texts = "; ".join(_describe(name, group) for name, group in list(disputed.items())[:SHOWN])
        ending = text_if(len(disputed) > SHOWN, f" and {len(disputed) - SHOWN:,} more")
        raise DataError(
            f"reviewers must agree about every sample; they disagree about {len(disputed):,}: "
            f"{texts}{ending}. Settle them in datassay view, or give --majority."
        )
    combined: dict[str | int, Decision] = {}
    for decision in (d for review in reviews for d in review.decisions):
        earlier = combined.get(decision.id)
        if earlier is None or earlier.decision == UNSURE:
            combined[decision.id] = decision
    for name, group in disputed.items():
        combined[name] = _take_majority(group)
    return replace(reviews[0], decisions=tuple(combined.values()))


def _votes(decisions: Sequence[Decision]) -> Counter[tuple[str, str]]:
    """Return how many decided for each (decision, new label); "unsure" is no vote."""
    return Counter((d.decision, d.label) for d in decisions if d.decision != UNSURE)


def _take_majority(decisions: Sequence[Decision]) -> Decision:
    """Return the decision with most votes; "unsure" in a tie."""
    (winner, count), *runners_up = _votes(decisions).most_common()
    if runners_up and runners_up[0][1] == count:
        decision = decisions[0]
        names = "+".join(d.reviewer or NOBODY for d in decisions)
        return Decision(decision.id, UNSURE, decision.given, "", decision.when, None, names)
    return next(d for d in decisions if (d.decision, d.label) == winner)


def _describe(sample_id: str | int, decisions: Sequence[Decision]) -> str:
    """Return a sample's id and who decided what about it."""
    votes = ", ".join(f"{d.reviewer or NOBODY} {opinion(d)}" for d in decisions)
    return f"{sample_id!s:.40} ({votes})"


def opinion(decision: Decision) -> str:
    """Return a decision in a word or two, for a message."""
    if decision.decision == RELABEL:
        return f"→ {decision.label:.40}"
    return WORDS.get(decision.decision, decision.decision)
