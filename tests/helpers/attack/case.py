"""One case of the attack: what is done, and what must hold afterwards."""

import csv
import os
import pickle
import random
import shutil
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from helpers.attack.attempt import Attempt, attempt, verdict


@dataclass(frozen=True)
class Case:
    """A piece of work and how its end is judged."""

    name: str  # what was done, in a few words
    work: Callable[[], object]  # in a child, in the case's folder
    # what is wrong with its results, or None; asked where how it ended is in order
    judge: Callable[[Attempt], str | None] = lambda ended: None
    expected: frozenset[int] = frozenset()  # statuses that are right beside the usual ones
    during: Callable[[int], object] = lambda pid: None  # in the parent, of the child's process id
    refused: bool | None = None  # whether it must be; None: either is right


def tried(case: Case, folder: Path, limit: float) -> tuple[Attempt, str | None]:
    """Run a case; how it ended, and what is wrong with that. A judge may crash."""
    ended = attempt(case.work, folder, during=case.during, limit=limit)
    try:
        wrong = verdict(ended, case.expected) or case.judge(ended)
    except Exception as error:  # noqa: BLE001  (it fails this case alone)
        where = traceback.extract_tb(error.__traceback__)[-1]
        wrong = f"judge: {type(error).__name__}: {error} ({where.name}, line {where.lineno})"
    if case.refused is not None and not wrong and case.refused != (ended.status == 2):
        wrong = "taken: it should be refused" if case.refused else "refused: it should be taken"
    return ended, wrong


def empty(folder: Path) -> Path:
    """The folder, empty."""
    if os.path.lexists(folder):
        os.chmod(folder, 0o755)
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Every file in a folder, by its path there."""
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def lost(before: dict[str, bytes], folder: Path) -> str | None:
    """The first of these files of the user's that is removed or changed."""
    after = contents(folder)
    return next((f"lost: {f}" for f, content in before.items() if after.get(f) != content), None)


def different_tables(one: Path, other: Path) -> str | None:
    """The first table in which two folders of results differ; None: they hold the same bits."""
    for file in sorted(one.glob("*.parquet")):
        if not (other / file.name).exists():
            return f"lost: {file.name}"
        a, b = (pq.read_table(folder / file.name) for folder in (one, other))
        if repr(a.to_pydict()) != repr(b.to_pydict()):
            return f"silent: {file.name} differs"
    return None


WAYS = ("flip", "flip", "flip", "cut", "append", "zero")


def damaged(draw: random.Random, content: bytes, ways=WAYS) -> tuple[str, bytes]:
    """What was done to the bytes, and the bytes: bits flipped, an end cut, more added, zeros."""
    how, changed = draw.choice(ways), bytearray(content)
    if how == "flip":
        for _ in range(draw.choice([1, 1, 4, 40]) if content else 0):
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    elif how == "cut":
        changed = changed[: draw.randrange(len(changed) or 1)]
    elif how == "append":
        changed += draw.randbytes(draw.choice([1, 99, 1000]))
    else:
        start = draw.randrange(len(changed) or 1)
        changed[start : start + 64] = bytes(len(changed[start : start + 64]))
    return how, bytes(changed)


def table(draw: random.Random, rows: int = 48) -> list[list[str]]:
    """A table as a user has it: an id, numbers, a category, a text, a label; the header first."""
    numbers = np.random.default_rng(draw.randrange(2**32))
    header = ["key", "age", "income", "share", "city", "note", "label"]
    words = ["late", "paid", "twice", "never", "called", "asked", "moved", "left"]
    lines = []
    for row in range(rows):
        label = row % 2
        lines.append([
            f"r{row:03d}",
            str(20 + int(numbers.integers(50)) + 5 * label),
            f"{1000 * float(numbers.lognormal()):.2f}",
            f"{float(numbers.normal(label)):.6g}",
            ["Paris", "Rome", "Oslo"][int(numbers.integers(3))],
            " ".join(numbers.choice(words, 4)) + f" {row}",
            ["no", "yes"][label],
        ])
    return [header, *lines]


def write_csv(path: Path, lines: list[list[str]]) -> Path:
    """A table as a .csv file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(lines)
    return path


def loading(path: str, stored: Path, **settings: Any) -> Callable[[], object]:
    """The work of loading data; what was read is kept, what is refused ends as a command does."""

    def work() -> None:
        import datassay
        from datassay.errors import DatassayError

        try:
            sets = datassay.load(path, **settings)
        except DatassayError as error:
            sys.stderr.write(f"Error: {str(error)!r}\n")
            raise SystemExit(2) from error
        sets = [s for s in sets if s is not None]
        facts = [
            {
                "x": s.x,
                "y": s.y,
                "ids": s.ids,
                "classes": s.class_names,
                "names": s.feature_names,
                "warnings": s.warnings,
                "read": {c.name: (c.read_as, c.missing) for c in s.columns},
            }
            for s in sets
        ]
        stored.write_bytes(pickle.dumps(facts))

    return work
