"""A hidden sub-class of 1 %: who ranks its samples high without knowing that it exists.

Two classes are made of several; of one part hardly any samples are there. AUROC of a score against
membership of that part.
"""

from functools import partial

import numpy as np
from bench import data, detectors
from bench.data import Given, sample_set
from bench.frame import Case, Task

from datassay.data import SampleSet

SHARE = 0.01


def merged(samples: SampleSet, rare: int, upper: tuple[int, ...], n: int, seed: int) -> Given:
    """N samples of two classes, those in `upper` and the others; `rare` has SHARE of them."""
    rng = np.random.default_rng((seed, 15))
    few = rng.permutation(np.flatnonzero(samples.y == rare))[: max(3, round(SHARE * n))]
    many = rng.permutation(np.flatnonzero(samples.y != rare))[: n - len(few)]
    rows = rng.permutation(np.concatenate([few, many]))
    y = np.isin(samples.y[rows], upper).astype(int)
    x = samples.x.reshape(len(samples), -1)[rows]
    return Given(sample_set(x, y, samples.name or "merged"), samples.y[rows] == rare)


def digits(rare: int, upper: tuple[int, ...], seed: int) -> Given:
    return merged(data.split("digits", 1700, seed)[0], rare, upper, 800, seed)


def blobs(seed: int) -> Given:
    """Six clusters in eight columns, three per class; one of them rare."""
    rng = np.random.default_rng((seed, 16))
    y = rng.integers(0, 6, 4000)
    x = rng.normal(0, 2, (6, 8))[y] + rng.normal(size=(4000, 8))
    return merged(sample_set(x, y, "blobs"), 4, (1, 3, 4), 800, seed)


def unseen(name: str, rare: int, upper: tuple[int, ...], seed: int) -> Given:
    return merged(data.unseen(name, 3000, seed), rare, upper, 800, seed)


def pictures(name: str, rare: int, upper: tuple[int, ...], seed: int) -> Given:
    return merged(data.small_images(name, 8000, seed), rare, upper, 3000, seed)


EVEN = (0, 2, 4, 6, 8)
TASK = Task(
    measure="a hidden sub-class of 1 % ranked high: AUROC",
    cases={
        "digits, even or odd, few 8": Case(partial(digits, 8, EVEN), quick=True),
        "digits, low or high, few 3": Case(partial(digits, 3, (5, 6, 7, 8, 9)), quick=True),
        "blobs": Case(blobs, quick=True),
        "blobs of width 3": Case(partial(unseen, "blobs", 3, (1, 3, 5, 6))),
        "emnist, even or odd, few 6": Case(partial(unseen, "emnist", 6, EVEN)),
        "emnist, low or high, few 1": Case(partial(unseen, "emnist", 1, (0, 1, 2, 3, 4))),
        "emnist, even or odd, few 9": Case(partial(unseen, "emnist", 9, EVEN)),
        "MNIST, even or odd, few 4": Case(partial(pictures, "mnist", 4, EVEN)),
        # Footwear and bags against clothes: few sandals.
        "Fashion-MNIST, few sandals": Case(partial(pictures, "fashion_mnist", 5, (5, 7, 8, 9))),
    },
    contenders=detectors.finders(),
    judge=detectors.judge,
)
