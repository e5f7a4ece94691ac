"""The best act: what following the first row of the table of acts really gains.

The gain is that of five fresh networks on right-labelled test samples. Beside it: doing nothing,
and acts that one would do without a table. `acts.py` judges every row and its interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import acts
import noise_contenders as asked
import numpy as np
import plain
from cells import Case, Contender, Truth
from noise_cases import one_way

import datassay as da
from datassay.act import Act
from datassay.data import SampleSet

METRIC = "accuracy"


@dataclass(frozen=True)
class Faulty:
    """Samples with a fault, or none, and right-labelled test samples."""

    given: SampleSet
    test: SampleSet


def small(name: str, n: int, spoil: Callable | None, seed: int) -> Faulty:
    train, test = plain.drawn(name, n, seed)
    return Faulty(train if spoil is None else blind(spoil(train, seed)), test)


def blind(samples: SampleSet) -> SampleSet:
    return replace(samples, true_y=None)


def large(draw: Callable, seed: int) -> Faulty:
    train, test = draw(seed)
    return Faulty(blind(train), test)


def uniform(samples: SampleSet, seed: int) -> SampleSet:
    return da.add_label_noise(samples, 0.2, seed=seed)


def first_of_table(task: Faulty, seed: int) -> Act | None:
    """The first act where the table says that it helps; otherwise nothing."""
    table, all_acts = acts.tabled(task.given, seed)
    best = table.best
    if best is None:
        return None
    return next((a for a in all_acts if (a.kind, a.words) == (best.kind, best.words)), None)


def nothing(task: Faulty, seed: int) -> None:
    return None


def without(positions: np.ndarray, task: Faulty) -> Act:
    weights = np.ones(len(task.given))
    weights[positions] = 0
    return Act("remove", "remove some", task.given.y, weights, len(positions))


def drop_hardest(task: Faulty, seed: int) -> Act:
    """A tenth of the samples: those of the largest loss."""
    loss = plain.loss_score(task.given, seed)
    return without(np.argsort(-loss)[: len(loss) // 10], task)


def drop_at_random(task: Faulty, seed: int) -> Act:
    n = len(task.given)
    return without(np.random.default_rng((seed, 22)).permutation(n)[: n // 10], task)


def drop_flagged(task: Faulty, seed: int) -> Act:
    """What cleanlab flags, by a logistic regression's five folds."""
    x = task.given.x.reshape(len(task.given), -1).astype(np.float32)
    found = asked.confident_learning(task.given.y, asked.logistic(task.given, x, seed))
    return without(np.flatnonzero(found["self-confidence"].flagged), task)


def drop_issues(task: Faulty, seed: int) -> Act:
    """All label issues, whatever the table says."""
    return without(np.flatnonzero(asked.ours(task.given, seed).flagged), task)


def judge(task: Faulty, answer: Act | None, seed: int) -> dict[str, float]:
    if answer is None:
        return {"gain": 0.0}
    found = acts.gains(task.given, task.test, [answer], METRIC, seed)
    return {"gain": next(gain for name, gain in found.items() if name != "score")}


TRUTH = Truth(
    measure="accuracy gained by the act",
    cases={
        "synthetic, 20 % wrong": Case(partial(small, "synthetic", 250, uniform), quick=True),
        "synthetic, nothing wrong": Case(partial(small, "synthetic", 250, None), quick=True),
        "breast_cancer, one-way 30 %": Case(
            partial(small, "breast_cancer", 250, one_way(0.3)), quick=True
        ),
        **{case.name: Case(partial(large, case.draw)) for case in acts.CASES},
    },
    contenders={
        "first of the table": Contender(first_of_table, "ours"),
        "nothing": Contender(nothing, "trivial"),
        "a tenth less at random": Contender(drop_at_random, "trivial"),
        "a tenth less, largest loss": Contender(drop_hardest, "trivial"),
        "without label issues, always": Contender(drop_issues),
        "without what cleanlab flags": Contender(drop_flagged, needs="cleanlab"),
    },
    judge=judge,
    repeats=3,
    chosen_on={"digits": range(1000)},
)
