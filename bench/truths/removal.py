"""Removal and addition: which samples carry the accuracy.

A contender values every sample, given a validation part. "removal": the most valuable go first; the
area between the accuracy with as many random samples removed and without these, from 0 to half of
the samples. "addition": the most valuable come first; the area above random, from 5 % to half.
Judged by logistic regression on other, right-labelled samples; a tenth of the training labels is
wrong.
"""

import warnings
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from bench import data, detectors
from bench.baselines import pydvl
from bench.frame import Case, Contender, Task
from bench.networks import trained
from sklearn.linear_model import LogisticRegression

import datassay as da
from datassay.data import SampleSet
from datassay.models import build_model
from datassay.train import Recipe

SHARES = {"removal": (0.1, 0.2, 0.3, 0.4, 0.5), "addition": (0.05, 0.1, 0.2, 0.3, 0.5)}
RANDOM_ORDERS = 5


@dataclass(frozen=True)
class Valued:
    """Training samples, validation samples a contender may see, and test samples."""

    given: SampleSet
    val: SampleSet
    test: SampleSet


def made(name: str, n: int, seed: int) -> Valued:
    train, rest = data.split(name, n, seed)
    noisy = replace(da.add_label_noise(train, 0.1, seed=seed), true_y=None)
    cut = min(150, len(rest) // 2)
    return Valued(noisy, rest.subset(np.arange(cut)), rest.subset(np.arange(cut, len(rest))))


def influence(measure: str, task: Valued, seed: int) -> np.ndarray:
    """How much a sample's presence lowers the validation loss, at trained weights."""
    train = task.given
    start = build_model("mlp:width=64", train, seed=seed).requires_grad_(True)
    network = trained(start, train, Recipe(steps=300), seed)
    attribution = da.influence(network, train, task.val, measure=measure)
    return attribution.total if measure == "margin" else -attribution.total


def information(task: Valued, seed: int) -> np.ndarray:
    """Informative and not suspect."""
    lin = detectors.linearised(task.given, seed)
    issues, result = da.label_issues(lin), da.sample_information(lin).information
    return np.where(issues.to_try, -issues.score, result)


def addition(task: Valued, seed: int) -> np.ndarray:
    """The order in which to add samples: what teaches a fit most first, suspects last."""
    lin = detectors.linearised(task.given, seed)
    keep = da.summarize(lin, 0.5, rule="fit", issues=da.label_issues(lin), seed=seed)
    return -np.argsort(keep.added_first).astype(float)


def values(semivalue: str, task: Valued, seed: int) -> np.ndarray:
    return da.values(task.given, task.val, semivalue=semivalue, seed=seed).value


def negative(of, task: Valued, seed: int) -> np.ndarray:
    return -of(task.given, seed)


def shapley(task: Valued, seed: int) -> np.ndarray:
    return pydvl.neighbour_shapley(task.given, task.val)


def out_of_bag(task: Valued, seed: int) -> np.ndarray:
    return pydvl.out_of_bag(task.given, seed)


def accuracy(task: Valued, kept: np.ndarray) -> float:
    y = task.given.y[kept]
    x = task.given.x.reshape(len(task.given), -1)[kept]
    rows = task.test.x.reshape(len(task.test), -1)
    if len(np.unique(y)) < 2:
        return float((task.test.y == y[0]).mean())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression(C=0.1, max_iter=300).fit(x, y)
    return float((model.predict(rows) == task.test.y).mean())


def curve(task: Valued, order: np.ndarray, which: str) -> float:
    """Mean accuracy over the shares; `order` has the most valuable first."""
    n = len(order)
    parts = (
        order[round(s * n) :] if which == "removal" else order[: round(s * n)]
        for s in SHARES[which]
    )
    return float(np.mean([accuracy(task, part) for part in parts]))


def judge(task: Valued, answer: np.ndarray, seed: int) -> dict[str, float]:
    order = np.argsort(-answer, kind="stable")
    rng = np.random.default_rng((seed, 21))
    chance = [rng.permutation(len(order)) for _ in range(RANDOM_ORDERS)]
    results = {}
    for which, sign in (("removal", -1), ("addition", 1)):
        base = np.mean([curve(task, some, which) for some in chance])
        results[which] = sign * (curve(task, order, which) - float(base))
    return results


# Of a problem with `given` and `val`; `values.py` asks them too.
VALUES = {
    "data values": Contender(partial(values, "beta"), "ours"),
    "Shapley values": Contender(partial(values, "shapley"), "ours"),
    "out-of-bag values": Contender(partial(values, "out_of_bag"), "ours"),
    **{
        f"{name}, low first": Contender(partial(negative, of), "trivial")
        for name, of in detectors.TRIVIAL.items()
    },
    "pyDVL, neighbour Shapley": Contender(shapley, needs="pydvl"),
    "pyDVL, Data-OOB of trees": Contender(out_of_bag, needs="pydvl"),
}
TASK = Task(
    measure="area between the accuracy of its order and of random orders",
    cases={
        f"{name}, n = {n}": Case(partial(made, name, n), quick=True)
        for name, n in (("digits", 500), ("breast_cancer", 250), ("synthetic", 400), ("wine", 100))
    }
    | {f"{name}, n = 2000": Case(partial(made, name, 2000)) for name in ("mnist", "fashion_mnist")},
    contenders={
        **VALUES,
        "influence on the validation loss": Contender(partial(influence, "loss"), "ours"),
        "influence on the margin": Contender(partial(influence, "margin"), "ours"),
        "information, suspects last": Contender(information, "ours"),
        "summarize by fit, suspects last": Contender(addition, "ours"),
    },
    judge=judge,
)
