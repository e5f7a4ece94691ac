"""Weights at equal compute: what a weighting gains, the same updates from the same start.

Networks learn with and without the weights from four starts, in the same batches; the gain is the
difference of their accuracies on test samples.
"""

from dataclasses import replace
from functools import partial

import numpy as np
from bench import data, detectors
from bench.data import Given, rows, sample_set, scaled
from bench.frame import Case, Contender, Task
from scipy.special import softmax
from sklearn.datasets import make_moons

import datassay as da
from datassay.act import (
    balanced_variance_weights,
    class_balanced_weights,
    network_gain,
    self_paced_weights,
)
from datassay.data import SampleSet
from datassay.models import build_model
from datassay.train import Recipe

STARTS = 4


def moons(seed: int) -> Given:
    """S0's double moon; tests have the noise of the training samples (S0: 0.15)."""
    x, y = make_moons(300 + data.TEST, noise=0.2, random_state=seed)
    both = sample_set(x, y, "moons")
    return Given(both.subset(np.arange(300)), test=both.subset(np.arange(300, len(both))))


def thin(train: SampleSet, few: tuple[int, ...], seed: int) -> SampleSet:
    """All samples but for the classes in `few`: of these a tenth."""
    drawn = np.random.default_rng((seed, 23)).random(len(train))
    return train.subset(np.flatnonzero(~np.isin(train.y, few) | (drawn <= 0.1)))


def small(name: str, n: int, seed: int, few: tuple[int, ...] = ()) -> Given:
    train, test = data.split(name, n, seed)
    return Given(thin(train, few, seed), test=test)


def unseen(name: str, few: tuple[int, ...], seed: int) -> Given:
    """Up to 60 % to learn from, up to 600 to test."""
    both = data.unseen(name, 1800, seed)
    cut = len(both) * 6 // 10
    test = both.subset(np.arange(cut, min(len(both), cut + data.TEST)))
    return Given(thin(both.subset(np.arange(cut)), few, seed), test=test)


def pictures(name: str, seed: int) -> Given:
    both = data.small_images(name, 9000, seed)
    return Given(both.subset(np.arange(3000)), test=both.subset(np.arange(3000, 9000)))


def local_variance(task: Given, seed: int) -> np.ndarray:
    return da.local_variance_weights(task.given.x, task.given.y)


def balanced_variance(task: Given, seed: int) -> np.ndarray:
    return balanced_variance_weights(task.given.y, local_variance(task, seed))


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


def hard_examples(task: Given, seed: int) -> np.ndarray:
    """Shrivastava et al. (2016): the half of the largest loss, alone."""
    loss = detectors.final_loss(task.given, seed)
    return 1.0 * (loss >= np.median(loss))


def learnt(task: Given, seed: int) -> np.ndarray:
    """Ren et al. (2018), of a linear model: a step's weights lower the loss of a held-out tenth."""
    x = scaled(rows(task.given))
    y = np.eye(task.given.n_classes)[task.given.y]
    held_out = np.random.default_rng((seed, 25)).random(len(x)) < 0.1
    coef, total = np.zeros((x.shape[1], y.shape[1])), np.zeros(len(x))
    for _ in range(200):
        slope = softmax(x @ coef, axis=1) - y  # [n, k]
        helps = ((x @ (x[held_out].T @ slope[held_out])) * slope).sum(1)
        weight = np.where(held_out, 0, helps.clip(0))
        weight /= max(weight.sum(), 1e-12)
        coef -= x.T @ (slope * weight[:, None])
        total += weight
    return np.where(held_out, total[~held_out].mean(), total)


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
        "digits, two rare classes": Case(partial(small, "digits", 1100, few=(3, 8)), quick=True),
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
        "no weights": Contender(lambda task, _: np.ones(len(task.given)), "trivial"),
        "local variance's, dealt out at random": Contender(at_random, "trivial"),
        "by loss": Contender(by_loss, "trivial"),
        "self-paced": Contender(self_paced),
        "class-balanced": Contender(lambda task, _: class_balanced_weights(task.given.y)),
        "hard examples": Contender(hard_examples),
        "learning to reweight": Contender(learnt),
    },
    judge=judge,
)
