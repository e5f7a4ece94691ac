"""Weights at equal compute: what a weighting gains, the same updates from the same start.

Networks learn with and without the weights from four starts, in the same batches; the gain is the
difference of their accuracies on test samples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from bench import data, detectors
from bench.data import sample_set
from bench.frame import Case, Contender, Task
from sklearn.datasets import make_moons

import datassay as da
from datassay.act import class_balanced_weights, network_gain, self_paced_weights
from datassay.data import SampleSet
from datassay.models import build_model
from datassay.train import Recipe

STARTS = 4


@dataclass(frozen=True)
class Split:
    """Samples to weigh, and test samples."""

    given: SampleSet
    test: SampleSet


def moons(seed: int) -> Split:
    """S0's double moon, with less noise than there."""
    x, y = make_moons(300 + data.TEST, noise=0.2, random_state=seed)
    both = sample_set(x, y, "moons")
    return Split(both.subset(np.arange(300)), both.subset(np.arange(300, len(both))))


def small(name: str, n: int, seed: int) -> Split:
    return Split(*data.split(name, n, seed))


def rare(seed: int) -> Split:
    """Digits, two classes with a tenth of their samples; the test part has as many of each."""
    train, test = data.split("digits", 1100, seed)
    rng = np.random.default_rng((seed, 23))
    few = np.isin(train.y, (3, 8)) & (rng.random(len(train)) > 0.1)
    return Split(train.subset(np.flatnonzero(~few)), test)


def pictures(name: str, seed: int) -> Split:
    both = data.small_images(name, 9000, seed)
    return Split(both.subset(np.arange(3000)), both.subset(np.arange(3000, 9000)))


def local_variance(task: Split, seed: int) -> np.ndarray:
    return da.local_variance_weights(task.given.x, task.given.y)


def uniform(task: Split, seed: int) -> np.ndarray:
    return np.ones(len(task.given))


def at_random(task: Split, seed: int) -> np.ndarray:
    """As unequal as local variance's, dealt out anew."""
    return np.random.default_rng((seed, 24)).permutation(local_variance(task, seed))


def by_loss(task: Split, seed: int) -> np.ndarray:
    """The larger a sample's loss, the heavier."""
    loss = detectors.final_loss(task.given, seed)
    return 1 + 9 * loss / loss.max()


def self_paced(task: Split, seed: int) -> np.ndarray:
    """Kumar et al. (2010): nine tenths, those of the smallest loss."""
    return self_paced_weights(detectors.final_loss(task.given, seed), 0.9)


def balanced(task: Split, seed: int) -> np.ndarray:
    """Cui et al. (2019)."""
    return class_balanced_weights(task.given.y)


def judge(task: Split, answer: np.ndarray, seed: int) -> dict[str, float]:
    train = replace(task.given, true_y=None)
    starts = [build_model("mlp:width=32", train, seed=100 * seed + s) for s in range(STARTS)]
    recipe = Recipe(steps=300)
    found, _ = network_gain(starts, train, task.test, {"w": answer}, recipe=recipe, seed=seed)
    return {"gain": found.difference(1)[0]}


TASK = Task(
    measure="accuracy gained by the weights, the same updates",
    cases={
        "moons": Case(moons, quick=True),
        "digits": Case(partial(small, "digits", 300), quick=True),
        "synthetic": Case(partial(small, "synthetic", 300), quick=True),
        "digits, two rare classes": Case(rare, quick=True),
        "MNIST": Case(partial(pictures, "mnist")),
        "Fashion-MNIST": Case(partial(pictures, "fashion_mnist")),
    },
    contenders={
        "local variance": Contender(local_variance, "ours"),
        "no weights": Contender(uniform, "trivial"),
        "local variance's, dealt out at random": Contender(at_random, "trivial"),
        "by loss": Contender(by_loss, "trivial"),
        "self-paced": Contender(self_paced),
        "class-balanced": Contender(balanced),
    },
    judge=judge,
)
