"""Data values: faulty samples should be worth least, though validation samples are as faulty.

Two of OpenDataVal's experiments (Jiang et al. 2023); the other two, removal and addition, are
`removal.py`. A fifth of the labels of training and validation samples is wrong, or normal noise of
one deviation is added to a fifth of the rows.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from bench import data, detectors
from bench.frame import Case, Contender, Task
from bench.truths.removal import VALUES, negative

import datassay as da
from datassay.act import auroc
from datassay.data import SampleSet
from datassay.score import odd_inputs

SHARE, VALIDATION = 0.2, 100


@dataclass(frozen=True)
class Faulty:
    """Training samples, which of them are faulty, and validation samples."""

    given: SampleSet
    marked: np.ndarray
    val: SampleSet


def wrong_labels(samples: SampleSet, seed: int) -> tuple[SampleSet, np.ndarray]:
    noisy = da.add_label_noise(samples, SHARE, seed=seed)
    return replace(noisy, true_y=None), noisy.y != noisy.true_y


def noisy_inputs(samples: SampleSet, seed: int) -> tuple[SampleSet, np.ndarray]:
    draw = np.random.default_rng((seed, 22))
    marked = draw.random(len(samples)) < SHARE
    noise = draw.normal(size=samples.x.shape) * samples.x.std(0) * marked[:, None]
    return replace(samples, x=(samples.x + noise).astype(np.float32)), marked


def made(name: str, n: int, fault, seed: int) -> Faulty:
    train, rest = data.split(name, n, seed)
    given, marked = fault(train, seed)
    return Faulty(given, marked, fault(rest.subset(np.arange(VALIDATION)), seed + 1)[0])


def unseen(name: str, seed: int) -> Faulty:
    both = data.unseen(name, 500, seed)
    cut = len(both) * 4 // 5
    given, marked = noisy_inputs(both.subset(np.arange(cut)), seed)
    return Faulty(given, marked, noisy_inputs(both.subset(np.arange(cut, len(both))), seed + 1)[0])


def noise(samples: SampleSet, seed: int) -> np.ndarray:
    return odd_inputs(samples).noise


def judge(task: Faulty, answer: np.ndarray, seed: int) -> dict[str, float]:
    return {"AUROC": auroc(task.marked, -answer)}


SETS = (("digits", 500), ("breast_cancer", 250), ("synthetic", 400))
TASK = Task(
    measure="faulty samples given the least value: AUROC",
    cases={
        f"{name}, {words}": Case(partial(made, name, n, fault), quick=True)
        for words, fault in (("wrong labels", wrong_labels), ("noisy inputs", noisy_inputs))
        for name, n in SETS
    }
    | {
        f"{name}, noisy inputs": Case(partial(unseen, name))
        for name in ("iris", "20 columns", "boston", "emnist")
    }
    | {
        f"{name}, wrong labels": Case(partial(made, name, 2000, wrong_labels))
        for name in ("mnist", "fashion_mnist")
    },
    contenders=VALUES
    | {
        "noise score, low first": Contender(partial(negative, noise), "ours"),
        "isolation forest, low first": Contender(partial(negative, detectors.isolation_forest)),
        "local outlier factor, low first": Contender(
            partial(negative, detectors.local_outlier_factor)
        ),
    },
    judge=judge,
)
