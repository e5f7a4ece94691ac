"""The cells of the review suite: labelled samples of which one in twenty is wrong, as is known.

Settings were chosen on `CHOOSE`; figures are of `REPORT`, which holds other data.
Noise: "uniform"; "pair" (each class to one other); "like" (classes that people confuse); "one-way"
(of two classes only one is given as the other); "input" (where a linear scorer is unsure);
"region" (half the labels in one region of the inputs, as of one bad source); "two columns";
"human" (CIFAR-10N; of its wrong labels a random part is mended, so that one in twenty is left).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from noise_cases import (
    HUMAN,
    LIKE,
    TABLES,
    Case,
    Samples,
    boston,
    built_in,
    census,
    drawn,
    human,
    images,
    input_dependent,
    noisy,
    scaled,
    table,
    text,
    two_columns,
)

from datassay.data import SampleSet

RATE, N = 0.05, 3000
MOST = 0.6  # of a class
FLAT = 1e-6  # columns of less deviation are 0
Noise = Callable[[SampleSet, int], SampleSet]


def from_class(mapping: dict[int, int], samples: SampleSet, seed: int) -> SampleSet:
    """Wrong labels in some classes only, one in twenty of all samples."""
    share = float(np.isin(samples.y, list(mapping)).mean())
    return noisy(mapping, min(MOST, RATE / share), samples, seed)


def region(samples: SampleSet, seed: int) -> SampleSet:
    """Of the eighth of the samples nearest a random one, two fifths have a random other label."""
    rng = np.random.default_rng((seed, 5))
    x, n, k = scaled(samples.x.reshape(len(samples), -1)), len(samples), samples.n_classes
    distance = np.square(x - x[rng.integers(n)]).sum(1)
    wrong = (distance.argsort().argsort() < n / 8) & (rng.random(n) < 8 * RATE)
    other = (samples.y + rng.integers(1, k, n)) % k
    return replace(samples, y=np.where(wrong, other, samples.y), true_y=samples.y)


def mended(column: str, work, seed: int) -> SampleSet:
    """CIFAR-10N with one wrong label in twenty: the others are given their true class."""
    some = drawn(human(column, True, work, seed), N, seed)
    assert some.true_y is not None
    rng = np.random.default_rng((seed, 6))
    right = rng.permutation(np.flatnonzero(some.y != some.true_y))[round(RATE * N) :]
    y = some.y.copy()
    y[right] = some.true_y[right]
    return replace(some, y=y)


def without_flat(samples: Samples, work, seed: int) -> SampleSet:
    """At most N samples; columns of sentences that hardly vary are 0."""
    some = drawn(samples(work, seed), N, seed)
    if some.x.ndim > 2:
        return some
    return replace(some, x=np.where(some.x.std(0) > FLAT, some.x, 0).astype(np.float32))


NOISES: dict[str, Noise] = {
    "uniform": partial(noisy, "uniform", RATE),
    "pair": partial(noisy, "pair", RATE),
    "one-way": partial(from_class, {1: 0}),
    "input": partial(input_dependent, RATE),
    "region": region,
    "two columns": partial(two_columns, RATE),
}
SAMPLES: dict[str, Samples] = {
    "digits": partial(built_in, "digits"),
    "mnist": partial(images, "mnist", N),
    "fashion": partial(images, "fashion_mnist", N),
    "sst2 tfidf": partial(text, "sst2", "tfidf", N),
    "sst2": partial(text, "sst2", "minilm", N),
    "rt tfidf": partial(text, "rt", "tfidf", N),
    "rt": partial(text, "rt", "minilm", N),
    "boston": boston,
    "census": partial(census, None, n=N),
    **{name: partial(table, *place) for name, place in TABLES.items()},
}


def _cases(**noises: str) -> dict[str, Case]:
    cases = []
    for data, kinds in noises.items():
        data = data.replace("_", " ")
        for kind in kinds.split(", "):
            like = partial(from_class, LIKE["mnist" if data == "mnist" else "fashion_mnist"])
            noise = like if kind == "like" else NOISES[kind]
            cases += [Case(f"{data} {kind}", partial(without_flat, SAMPLES[data]), noise)]
    return {case.name: case for case in cases}


def _human(*columns: str) -> dict[str, Case]:
    cases = [Case(f"cifar10n {name}", partial(mended, HUMAN[name])) for name in columns]
    return {case.name: case for case in cases}


CHOOSE = _cases(
    digits="uniform, pair, input", mnist="uniform, pair, like, input, region",
    sst2="uniform, one-way, input", sst2_tfidf="one-way", churn="uniform, one-way, region",
    hpc="uniform, pair, region", boston="pair", attrition="one-way",
) | _human("random2", "worst")  # fmt: skip
REPORT = _cases(
    fashion="uniform, pair, like, input, region", rt="uniform, one-way, input", rt_tfidf="one-way",
    census="uniform, one-way, two columns", credit="uniform, one-way, region",
    spam="uniform, one-way", leaf="pair",
) | _human("aggregate", "random1")  # fmt: skip
# Named before any was computed: pictures, sentences, tables and people, each with structure.
FIVE = ("fashion like", "rt one-way", "census one-way", "credit region", "cifar10n aggregate")
