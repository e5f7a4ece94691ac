"""Reviews on one folder: several at once, and one that is killed between decisions."""

import os
import random
import signal
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from datassay.act.review.decisions import read_decisions
from datassay.commands.view.session import Refused, Session
from datassay.data.samples import SampleSet
from datassay.report.review.labels import Reviewed
from helpers.attack.attempt import Attempt
from helpers.attack.case import Case

WHEN = "2026-11-23T09:00:00+00:00"
N = 90


def case(draw: random.Random, folder: Path) -> Case:
    """Two to four reviews that save in the same instant, or one that ends by SIGKILL."""
    if draw.random() < 0.4:
        pause = draw.uniform(0.01, 0.4)
        return Case(
            f"killed after {pause:.3f} s", lambda: _write(folder, _endless(), "0", 0), during=lambda
            pid: (time.sleep(pause), os.kill(pid, signal.SIGKILL)), judge=lambda ended:
            _missed(folder), expected=frozenset({-signal.SIGKILL}),
        )  # fmt: skip
    n = draw.choice([2, 2, 4])
    rows = [draw.sample(range(N), draw.randint(1, 6)) for _ in range(n)]

    def work() -> None:
        if draw.random() < 0.5:
            session(folder).change([change(N - 1, "keep")])
        start, children = time.time() + 0.1, []
        for k, each in enumerate(rows):
            children.append(os.fork())
            if not children[-1]:
                _write(folder, iter([(row, "keep") for row in each]), str(k), start)
                os._exit(0)
        if any(os.waitpid(pid, 0)[1] for pid in children):
            raise SystemExit(1)

    def judge(ended: Attempt) -> str | None:
        return _missed(folder)

    return Case(f"{n} at once", work, judge, refused=False)


@cache
def _reviewed() -> Reviewed:
    draw = np.random.default_rng(0)
    y = np.arange(N) % 3
    samples = SampleSet(draw.normal(size=(N, 4)), y, np.arange(N), ("a", "b", "c"))
    p = draw.random(N)
    return Reviewed(
        samples=samples,
        suggested=(y + 1) % 3,
        probability=p,
        is_issue=p > 0.9,
        worth_a_look=p > 0.9,
        score=p,
        digest="d",
    )


def session(folder: Path) -> Session:
    unused: Any = SimpleNamespace(share=(0.0, 0.0))  # by what saves
    return Session(_reviewed(), unused, folder)


def change(row: int, decision: str | None) -> dict:
    return {"row": row, "decision": decision, "when": WHEN, "seen": 0.5}


def _endless() -> Iterator[tuple[int, str]]:
    draw = random.Random(0)
    while True:
        yield draw.randrange(N), draw.choice(["keep", "remove", "unsure"])


def _write(folder: Path, decisions: Iterator[tuple[int, str]], name: str, start: float) -> None:
    """Decide, and note each decision that was accepted before the next."""
    one = session(folder)
    time.sleep(max(0, start - time.time()))
    with (folder / f"accepted.{name}").open("w", buffering=1) as noted:
        for row, decision in decisions:
            try:
                one.change([change(row, decision)])
            except Refused:
                return
            noted.write(f"{row} {decision}\n")
    one.finish()


def _missed(folder: Path) -> str | None:
    """The first decision that was accepted and is not there."""
    file = folder / "decisions.parquet"
    accepted = {}
    for noted in folder.glob("accepted.*"):
        accepted |= dict(line.split() for line in noted.read_text().splitlines(keepends=False))
    there = {str(one.id): one.decision for one in read_decisions(file).decisions} if (
        file.exists()) else {}  # fmt: skip
    if len(session(folder)) != len(there):
        return "lost: a review goes on with others"
    killed = len(list(folder.glob("accepted.*"))) == 1
    wrong = [row for row, decision in accepted.items() if there.get(row) != decision]
    # What was being saved when it was killed may be there or not.
    return f"lost: {wrong}" if len(wrong) > killed or {*wrong} - {*there} else None
