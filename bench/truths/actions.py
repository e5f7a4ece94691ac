"""The best action: what following the first row of the table of actions really gains.

The gain is that of five fresh networks on right-labelled test samples. Compared with it: doing
nothing, and actions that one would do without a table. The table sees only corrupted samples, in
fifths. Whole tables, on larger sets, are judged in `uses/advice.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from bench import data, detectors, noise
from bench.baselines import cleanlab
from bench.frame import Case, Contender, Task

import datassay as da
from datassay.act import (
    Action,
    ActionTable,
    Chosen,
    Estimators,
    Networks,
    best_learner,
    compare_actions,
    fifths,
    predictions,
    proposals,
    table_learner,
)
from datassay.data import SampleSet
from datassay.score import data_issues

SEEDS, FRESH, PARTS, BUDGET = 2, 5, 5, 60.0
METRIC = "accuracy"


@dataclass(frozen=True)
class Faulty:
    """Samples with a fault or none, and right-labelled test samples."""

    given: SampleSet
    test: SampleSet


@dataclass(frozen=True)
class Tabled:
    """The action to do, the table that says so, and the actions of its rows."""

    act: Action | None
    table: ActionTable
    actions: tuple[Action, ...]
    model: str = ""  # that the table names; empty: networks


# The table and what actions really gain. -------------------------------------------------------


def tabled(train: SampleSet, seed: int, *, is_open: bool = False) -> Tabled:
    """The table of actions in fifths, and the first action where the table says that it helps.

    Of networks, or of what predicts best, as a run that was given no model.
    """
    lin, whole = detectors.as_run_asks(train, seed)
    information = da.sample_information(lin, loo=da.leave_one_out(lin)).information

    def judge(sub, some):
        issues = da.label_issues(sub, noise=whole.noise[0].kind)
        return issues, issues.ridge

    def learner(some, part):
        return _networks(some, SEEDS, 1000 * seed + SEEDS * part)

    copies = data_issues(train, None).copies
    parts = fifths(
        lin, train, information, PARTS, noise=whole.noise[0].transition, share=whole.share_wrong,
        copies=copies, judge=judge, learner=learner, seed=seed,
    )  # fmt: skip
    # The actions of all samples, whether or not the table retrains them.
    actions, _ = proposals(train, whole, information, seed=seed, copies=copies)
    chosen = Chosen("", parts)
    chosen = best_learner(chosen, budget=BUDGET) if is_open else chosen
    table = compare_actions(chosen.parts, budget=1e9, base=chosen.base, seed=seed)
    best = table.best
    first = (a for a in actions if best and (a.kind, a.words) == (best.kind, best.words))
    return Tabled(next(first, None), table, actions, chosen.name)


def _fresh(model: str, train: SampleSet, seed: int) -> Networks | Estimators:
    """Five of what a table names."""
    if model:
        return table_learner(model, train, repeats=FRESH, seed=500 + 1000 * seed)
    return _networks(train, FRESH, 500 + 1000 * seed)


def _networks(train: SampleSet, n: int, seed: int) -> Networks:
    models = [da.build_model("mlp:width=256", train, seed=seed + s) for s in range(n)]
    return Networks(models, seed=seed)


def gains(
    train: SampleSet, test: SampleSet, actions, metric: str, seed: int, model: str = ""
) -> dict[str, float]:
    """What each action gains fresh models on the test samples, by kind and number dropped."""
    learner = _fresh(model, train, seed)
    base = reached(train, test, metric, seed, model)
    return {
        named(action): _score(predictions(learner, train, test, action), test, metric) - base
        for action in actions
    }


def reached(train: SampleSet, test: SampleSet, metric: str, seed: int, model: str = "") -> float:
    """The score of fresh models of the samples as they are, on the test samples."""
    learner = _fresh(model, train, seed)
    plain = learner.outputs(train, test, np.tile(np.arange(len(train)), (learner.repeats, 1)))
    return _score(plain, test, metric)


def named(action) -> str:
    """The same action on fifths and on all."""
    return action.words if action.kind == "drop" else action.kind


def _score(outputs: np.ndarray, test: SampleSet, metric: str) -> float:
    if outputs.shape[2] == 1:
        outputs = np.concatenate([-outputs, outputs], 2)
    right = outputs.argmax(2) == test.y
    if metric == METRIC:
        return float(right.mean())
    return float(np.mean([right[:, test.y == c].mean() for c in np.unique(test.y)]))


def judge(task: Faulty, answer: Action | Tabled | None, seed: int) -> dict[str, float]:
    action = answer.act if isinstance(answer, Tabled) else answer
    if action is None:
        return {"gain": 0.0}
    return {"gain": gains(task.given, task.test, [action], METRIC, seed)[named(action)]}


# Contenders. --------------------------------------------------------------------------------


def nothing(task: Faulty, seed: int) -> None:
    return None


def without(positions: np.ndarray, task: Faulty) -> Action:
    weights = np.ones(len(task.given))
    weights[positions] = 0
    return Action("remove", "remove some", task.given.y, weights, len(positions))


def drop_hardest(task: Faulty, seed: int) -> Action:
    """A tenth of the samples: those of the largest loss."""
    loss = detectors.final_loss(task.given, seed)
    return without(np.argsort(-loss)[: len(loss) // 10], task)


def drop_at_random(task: Faulty, seed: int) -> Action:
    n = len(task.given)
    return without(np.random.default_rng((seed, 22)).permutation(n)[: n // 10], task)


def drop_flagged(task: Faulty, seed: int) -> Action:
    """What cleanlab flags, by a logistic regression's five folds."""
    flagged = cleanlab.flagged(task.given.y, detectors.logistic(task.given, seed))
    return without(np.flatnonzero(flagged), task)


def drop_issues(task: Faulty, seed: int) -> Action:
    """All label issues, whatever the table says."""
    return without(np.flatnonzero(detectors.as_run_asks(task.given, seed)[1].to_try), task)


# Cases. -------------------------------------------------------------------------------------


def small(name: str, n: int, spoil: Callable | None, seed: int) -> Faulty:
    train, test = data.split(name, n, seed)
    return Faulty(train if spoil is None else replace(spoil(train, seed), true_y=None), test)


TASK = Task(
    measure="accuracy gained by the action",
    cases={
        "synthetic, 20 % wrong": Case(
            partial(small, "synthetic", 250, noise.UNIFORM(0.2)), quick=True
        ),
        "synthetic, nothing wrong": Case(partial(small, "synthetic", 250, None), quick=True),
        "breast_cancer, one-way 30 %": Case(
            partial(small, "breast_cancer", 250, noise.one_way(0.3)), quick=True
        ),
    },
    contenders={
        "first of the table": Contender(lambda task, seed: tabled(task.given, seed), "ours"),
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
