"""Weights at equal compute: what a weighting gains, the same updates from the same start.

Networks learn with and without the weights from four starts, in the same batches; the gain is the
difference of their accuracies on test samples.
"""

from dataclasses import replace
from functools import partial

import numpy as np
from bench import data, detectors
from bench.data import Given, sample_set
from bench.frame import Case, Contender, Task
from sklearn.datasets import make_moons

import datassay as da
from datassay.act import (
    balanced_variance_weights,
    class_balanced_weights,
    network_gain,
    self_paced_weights,
)
from datassay.models import build_model
from datassay.train import Recipe

STARTS = 4


def moons(seed: int) -> Given:
    """S0's double moon; tests have the noise of the training samples (S0: 0.15)."""
    x, y = make_moons(300 + data.TEST, noise=0.2, random_state=seed)
    both = sample_set(x, y, "moons")
    return Given(both.subset(np.arange(300)), test=both.subset(np.arange(300, len(both))))


def small(name: str, n: int, seed: int) -> Given:
    train, test = data.split(name, n, seed)
    return Given(train, test=test)


def rare(seed: int) -> Given:
    """Digits, two classes with a tenth of their samples; the test part has as many of each."""
    train, test = data.split("digits", 1100, seed)
    rng = np.random.default_rng((seed, 23))
    few = np.isin(train.y, (3, 8)) & (rng.random(len(train)) > 0.1)
    return Given(train.subset(np.flatnonzero(~few)), test=test)


def unseen(name: str, rare: tuple[int, ...], seed: int) -> Given:
    """Up to 60 % to learn from, in `rare` classes a tenth of their samples; up to 600 to test."""
    both = data.unseen(name, 1800, seed)
    cut = len(both) * 6 // 10
    rng = np.random.default_rng((seed, 23))
    few = np.isin(both.y[:cut], rare) & (rng.random(cut) > 0.1)
    return Given(
        both.subset(np.flatnonzero(~few)),
        test=both.subset(np.arange(cut, min(len(both), cut + data.TEST))),
    )


def pictures(name: str, seed: int) -> Given:
    both = data.small_images(name, 9000, seed)
    return Given(both.subset(np.arange(3000)), test=both.subset(np.arange(3000, 9000)))


def local_variance(task: Given, seed: int) -> np.ndarray:
    return da.local_variance_weights(task.given.x, task.given.y)


def balanced_variance(task: Given, seed: int) -> np.ndarray:
    return balanced_variance_weights(task.given.y, local_variance(task, seed))


def uniform(task: Given, seed: int) -> np.ndarray:
    return np.ones(len(task.given))


def at_random(task: Given, seed: int) -> np.ndarray:
    """As unequal as local variance's, dealt out anew."""
    return np.random.default_rng((seed, 24)).permutation(local_variance(task, seed))


def by_loss(task: Given, seed: int) -> np.ndarray:
    """The larger a sample's loss, the heavier."""
    loss = detectors.final_loss(task.given, seed)
    return 1 + 9 * loss / loss.max()


def self_paced(task: Given, seed: int) -> np.ndarray:
    """Kumar et al. (2010): nine tenths, those of the smallest loss."""
    return self_paced_weights(detectors.final_loss(task.given, seed), 0.9)


def balanced(task: Given, seed: int) -> np.ndarray:
    return class_balanced_weights(task.given.y)


def judge(task: Given, answer: np.ndarray, seed: int) -> dict[str, float]:
    train = replace(task.given, true_y=None)
    starts = [build_model("mlp:width=32", train, seed=100 * seed + s) for s in range(STARTS)]
    recipe = Recipe(steps=300)
    result, _ = network_gain(starts, train, task.test, {"w": answer}, recipe=recipe, seed=seed)
    return {"gain": result.difference(1)[0]}


TASK = Task(
    measure="accuracy gained by the weights, the same updates",
    cases={
        "moons": Case(moons, quick=True),
        "digits": Case(partial(small, "digits", 300), quick=True),
        "synthetic": Case(partial(small, "synthetic", 300), quick=True),
        "digits, two rare classes": Case(rare, quick=True),
        "boston": Case(partial(unseen, "boston", ())),
        "diabetes": Case(partial(unseen, "diabetes", ())),
        "emnist, two rare classes": Case(partial(unseen, "emnist", (4, 7))),
        "blobs, two rare classes": Case(partial(unseen, "blobs", (1, 2))),
        "MNIST": Case(partial(pictures, "mnist")),
        "Fashion-MNIST": Case(partial(pictures, "fashion_mnist")),
    },
    contenders={
        "local variance": Contender(local_variance, "ours"),
        "class-balanced local variance": Contender(balanced_variance, "ours"),
        "no weights": Contender(uniform, "trivial"),
        "local variance's, dealt out at random": Contender(at_random, "trivial"),
        "by loss": Contender(by_loss, "trivial"),
        "self-paced": Contender(self_paced),
        "class-balanced": Contender(balanced),
    },
    judge=judge,
)
