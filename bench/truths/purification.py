"""Purification: what removing suspects gains a model that then learns from the rest.

A contender says which samples stay. A logistic regression, its penalty chosen by cross-validation,
learns from them; the gain is its accuracy on right-labelled test samples less that of learning from
all. The bound keeps the right labels.
"""

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
from bench import data, detectors
from bench.baselines import cleanlab
from bench.data import Given, rows
from bench.frame import Case, Contender, Task
from sklearn.linear_model import LogisticRegressionCV
from torch import nn

import datassay as da
from datassay.data import SampleSet, sd_mixture


def digits(fraction: float, seed: int) -> Given:
    """4 against 8, as in S4, of scikit-learn's digits."""
    train, test = data.split("digits", 240, seed, (4, 8))
    return spoilt(train, test, fraction, seed)


def images(name: str, fraction: float, seed: int) -> Given:
    """Two classes of 14 x 14 images, 600 samples."""
    return spoilt(*data.split(name, 600, seed, (4, 8)), fraction, seed)


def spoilt(train: SampleSet, test: SampleSet, fraction: float, seed: int) -> Given:
    noisy = da.add_label_noise(train, fraction, seed=seed)
    return Given(replace(noisy, true_y=None), noisy.y != noisy.true_y, test)


def table(name: str, n: int, fraction: float, seed: int) -> Given:
    return spoilt(*data.split(name, n, seed), fraction, seed)


def letters(seed: int) -> Given:
    """S4's SD-2: three samples in ten obey another rule."""
    mixed = sd_mixture((350, 150), seed=seed)
    test = sd_mixture((1000,), seed=9000 + seed)
    wrong = mixed.source != "function 1"
    return Given(replace(mixed, source=None, true_y=None), wrong, replace(test, source=None))


def everything(task: Given, seed: int) -> np.ndarray:
    return np.arange(len(task.given))


def purified(order: str, task: Given, seed: int) -> np.ndarray:
    """What the library keeps for a linear model."""
    model = nn.Linear(rows(task.given).shape[1], task.given.n_classes)
    flat = replace(task.given, x=rows(task.given), kind="row")
    return da.purify(model, flat, order=order, seed=seed).keep


def no_issues(task: Given, seed: int) -> np.ndarray:
    return np.flatnonzero(~detectors.as_run_asks(task.given, seed)[1].to_try)


def confident(task: Given, seed: int) -> np.ndarray:
    """Without what cleanlab flags, by a logistic regression's five folds."""
    result = detectors.logistic(task.given, seed)
    return np.flatnonzero(~cleanlab.flagged(task.given.y, result))


def misfits(task: Given, seed: int) -> np.ndarray:
    """Without what a logistic regression's five folds get wrong."""
    return np.flatnonzero(detectors.logistic(task.given, seed).argmax(1) == task.given.y)


def fewer_at_random(task: Given, seed: int) -> np.ndarray:
    n = len(task.given)
    return np.sort(np.random.default_rng((seed, 20)).permutation(n)[: round(0.8 * n)])


def accuracy(task: Given, keep: np.ndarray) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegressionCV(Cs=np.logspace(-3, 2, 6), cv=3, max_iter=500)
        model.fit(rows(task.given)[keep], task.given.y[keep])
    return float((model.predict(rows(task.test)) == task.test.y).mean())


def judge(task: Given, answer: np.ndarray, seed: int) -> dict[str, float]:
    return {"gain": accuracy(task, answer) - accuracy(task, everything(task, seed))}


TASK = Task(
    measure="accuracy gained by learning without what is removed",
    cases={
        **{
            f"digits 4 vs 8, {share:.0%}": Case(partial(digits, share), quick=True)
            for share in (0.1, 0.2, 0.3, 0.4)
        },
        **{
            f"{name} 4 vs 8, {share:.0%}": Case(partial(images, name, share))
            for name in ("mnist", "fashion_mnist")
            for share in (0.1, 0.2, 0.3, 0.4)
        },
        "synthetic, 30%": Case(partial(table, "synthetic", 500, 0.3), quick=True),
        "letters, 30% of another rule": Case(letters, quick=True),
    },
    contenders={
        "purify": Contender(partial(purified, "auto"), "ours"),
        "without label issues": Contender(no_issues, "ours"),
        "nothing removed": Contender(everything, "trivial"),
        "a fifth less at random": Contender(fewer_at_random, "trivial"),
        "purify by loss": Contender(partial(purified, "loss")),
        "without cross-validated misfits": Contender(misfits),
        "cleanlab": Contender(confident, needs="cleanlab"),
        "right labels only": Contender(lambda task, _: np.flatnonzero(~task.marked), "bound"),
    },
    judge=judge,
)
