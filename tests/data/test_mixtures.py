"""Mixtures: labels by the printed formula, blocks that clash, and the shipped files of S4."""

import csv
import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, LogisticRegression

import datassay as da
from datassay.data.samples import SampleSet
from datassay.data.synthetic.mixtures import LETTERS, clashing, routable_mixture, sd_mixture
from datassay.errors import DataError

DATA = os.environ.get("DATASSAY_DATA")
# As S4 §4 prints them.
LETTER = [
    {"R": "1.0", "D": "-1.0", "N": "0.3", "B": "-0.3"},
    {"R": "-0.4", "D": "1.0", "N": "-0.8", "B": "0.6"},
    {"R": "1.2", "D": "0.4", "N": "-0.2", "B": "-0.8"},
]
FEATURE = [
    "1 -1 1 -1 1 -1 1 -1 1 -1".split(),
    "0.5 0.5 -1 1 0 -0.5 1 -1 0.5 -0.5".split(),
    "1 0.5 1 1 0.5 -0.5 -1 -1.5 -0.5 1".split(),
]
THRESHOLD = [("-2.0", "0.0", "2.0"), ("-1.5", "0.0", "1.5"), ("-2.5", "0.0", "2.0")]


def label(letters, function, number: type = Fraction):
    """S4 Eq. (15), the labels named as its shipped files name them; summed from left to right."""
    weights = {letter: number(w) for letter, w in LETTER[function].items()}
    score = number(0)
    for weight, letter in zip(FEATURE[function], letters, strict=True):
        score += number(weight) * weights[letter]
    below = sum(score <= number(a) for a in THRESHOLD[function])
    return "RDNB"[below], score in {number(a) for a in THRESHOLD[function]}


def strings(samples):
    return np.array(LETTERS)[samples.x.reshape(len(samples), 10, 4).argmax(2)]


@settings(deadline=None, max_examples=20)
@given(sizes=st.lists(st.integers(0, 60), min_size=1, max_size=3), seed=st.integers(0, 99))
def test_labels_are_those_of_the_printed_formula(sizes, seed):
    if not sum(sizes):
        return
    samples = sd_mixture(sizes, seed=seed)
    assert (samples.x.sum(1) == 10).all() and set(np.unique(samples.x)) <= {0, 1}
    assert samples.source is not None
    for letters, y, source in zip(strings(samples), samples.y, samples.source, strict=True):
        function = int(source.removeprefix("function ")) - 1
        assert label(letters, function)[0] == LETTERS[y]
    names, counts = np.unique(samples.source, return_counts=True)
    assert dict(zip(names, counts, strict=True)) == {
        f"function {i + 1}": size for i, size in enumerate(sizes) if size
    }
    assert samples.name == f"sd{len(sizes)}" and samples.class_names == LETTERS
    assert samples.feature_names[:5] == ("x1=B", "x1=D", "x1=N", "x1=R", "x2=B")


def test_seeds_differ_and_repeat_and_blocks_are_shuffled():
    for draw in (sd_mixture, routable_mixture):
        first, again, other = (draw((30, 30), seed=seed) for seed in (1, 1, 2))
        assert np.array_equal(first.x, again.x) and np.array_equal(first.y, again.y)
        assert not np.array_equal(first.x, other.x)
        assert first.source is not None and len(set(first.source[:30])) == 2


def logistic(samples):
    return LogisticRegression(C=10, max_iter=500).fit(samples.x, samples.y)


def by_block(fit, train, test):
    predicted = np.empty(len(test))
    for block in np.unique(train.source):
        here = test.source == block
        predicted[here] = fit(train.subset(train.source == block)).predict(test.x[here])
    return predicted


@pytest.mark.parametrize("sizes", [(500, 500), (400, 400, 400)])
def test_blocks_are_routable_and_one_model_is_not_enough(sizes):
    train, test = (routable_mixture(sizes, seed=seed) for seed in (0, 1))
    router = LogisticRegression(C=10).fit(train.x, train.source)
    assert router.score(test.x, test.source) >= 0.9
    routed = (by_block(logistic, train, test) == test.y).mean()
    assert routed >= 0.94 and routed - logistic(train).score(test.x, test.y) >= 0.2
    assert np.abs(np.bincount(test.y) / len(test) - 0.25).max() < 0.05


def test_the_regression_form_clashes_too():
    train, test = (routable_mixture(task="regression", seed=seed) for seed in (0, 1))

    def r2(predicted):
        return 1 - np.mean((predicted - test.y) ** 2) / test.y.var()

    def linear(samples):
        return LinearRegression().fit(samples.x, samples.y)

    assert not train.is_classification
    assert r2(by_block(linear, train, test)) > 0.98  # noise 0.1, so 1 - 0.01 at best
    assert r2(linear(train).predict(test.x)) < 0.6


@pytest.mark.parametrize("overlap", [0.02, 0.1, 0.3, 0.5])
def test_overlap_is_the_error_of_the_best_rule(overlap):
    samples = routable_mixture((20000, 20000), overlap=overlap, seed=4)
    second = samples.source == "block 2"
    # The best rule between two such normals: the nearer mean, here the sample mean.
    direction = samples.x[second].mean(0) - samples.x[~second].mean(0)
    score = (samples.x - samples.x.mean(0)) @ direction
    if overlap < 0.5:
        assert ((score > 0) != second).mean() == pytest.approx(overlap, abs=0.006)
    else:
        assert np.linalg.norm(direction) < 0.06  # ten axes of sd 0.01 each


def coloured(name, n, n_classes=4, side=5, seed=0):
    rng = np.random.default_rng(seed)
    return SampleSet(
        rng.random((n, 1, side, side)).astype(np.float32),
        rng.integers(0, n_classes, n),
        np.arange(n),
        class_names=tuple("abcdef"[:n_classes]),
        kind="image",
        name=name,
    )


def test_clashing_moves_the_labels_of_each_set():
    sets = [coloured("one", 7), replace(coloured("two", 5, seed=1), class_names=tuple("wxyz"))]
    noisy = da.add_label_noise(coloured("three", 6, seed=2), 0.5)
    joined = clashing([*sets, noisy], shift=3, seed=1)
    assert (joined.name, joined.class_names) == ("one + two + three", tuple("abcd"))
    assert joined.source is not None and joined.true_y is not None
    for i, name in enumerate(joined.ids):
        origin, position = name.split(":")
        which = ["one", "two", "three"].index(origin)
        was = [*sets, noisy][which]
        assert joined.source[i] == origin
        assert np.array_equal(joined.x[i], was.x[int(position)])
        assert joined.y[i] == (was.y[int(position)] + 3 * which) % 4
        truth = was.y if was.true_y is None else was.true_y
        assert joined.true_y[i] == (truth[int(position)] + 3 * which) % 4
    assert clashing(sets).true_y is None
    assert not np.array_equal(joined.ids, clashing([*sets, noisy], shift=3).ids)


@pytest.mark.parametrize(
    ("name", "whole"), [("sd2", sd_mixture()), ("routable", routable_mixture())]
)
def test_built_in_mixtures_keep_their_blocks(name, whole):
    for part in da.load(name, seed=3):
        assert part.source.tolist() == whole.source[part.ids].tolist()
        assert np.array_equal(part.x, whole.x[part.ids])
        assert np.array_equal(part.y, whole.y[part.ids])


ONE, TWO = coloured("one", 4), coloured("two", 4)
WORDS = replace(TWO, kind="text", texts=np.array(list("abcd")))
VALUES = replace(ONE, y=np.zeros(4), class_names=(), name="a")


@pytest.mark.parametrize(
    ("make", "settings", "message"),
    [
        (sd_mixture, {"sizes": []}, "sizes must name 1 to 3 functions; got 0"),
        (sd_mixture, {"sizes": (1, 1, 1, 1)}, "1 to 3 functions; got 4"),
        (sd_mixture, {"sizes": (5, -1)}, r"samples, 0 or more and not all 0; got \[5, -1\]"),
        (sd_mixture, {"sizes": (0, 0)}, "not all 0"),
        (routable_mixture, {"sizes": []}, "sizes must name 1 to 4 blocks.* got 0"),
        (routable_mixture, {"sizes": (9,) * 5, "n_features": 20}, "1 to 4 blocks, as many as"),
        (routable_mixture, {"sizes": (3, -3)}, "counts of samples"),
        (routable_mixture, {"n_classes": 1}, "n_classes must be .* at least 2; got 1"),
        (routable_mixture, {"n_features": 5}, "n_features must be .* at least 6, .* got 5"),
        (routable_mixture, {"n_features": 3, "task": "regression"}, "n_features must .* least 4"),
        (routable_mixture, {"overlap": 0.0}, r"overlap must lie in \(0, 0.5\].* got 0.0"),
        (routable_mixture, {"overlap": float("nan")}, "got nan"),
        (routable_mixture, {"seed": -1}, "seed must be an integer"),
        (clashing, {"sets": [ONE]}, "at least two sets are needed to clash; got 1"),
        (clashing, {"sets": [ONE, ONE]}, "names must differ; got one, one"),
        (clashing, {"sets": [ONE, coloured("two", 4, 3)]}, "classes, 2 or more; got 4, 3"),
        (clashing, {"sets": [VALUES, TWO]}, r"got 0, 4 \(0: regression\)"),
        (clashing, {"sets": [ONE, coloured("two", 4, side=6)]}, r"got \(1, 5, 5\), \(1, 6, 6\)"),
        (clashing, {"sets": [ONE, TWO], "shift": 4}, "moves those of 2 sets of 4 classes by 0, 0"),
        (clashing, {"sets": [ONE, TWO, coloured("x", 4)], "shift": 2}, "by 0, 2, 0. Take 1"),
        (clashing, {"sets": [ONE, WORDS]}, "text sets have"),
    ],
)
def test_what_is_refused(make, settings, message):
    with pytest.raises(DataError, match=message):
        make(**settings)


# File, and the rows of functions 1, 2 and 3, in that order.
SHIPPED = {
    "train_pure": (1000,),
    "test_dis1": (1000,),
    "train_mix_2spec": (700, 300),
    "train_mix_3spec": (700, 150, 150),
    "mix12": (1000, 1000),
    "mix123": (1000, 1000, 1000),
}


@pytest.mark.real_data
@pytest.mark.skipif(DATA is None, reason="DATASSAY_DATA is not set")
def test_shipped_files_follow_the_formula_but_for_rounding_on_the_thresholds():
    total = exact = 0
    for name, sizes in SHIPPED.items():
        path = Path(DATA or "") / "divide_and_predict" / "Synthetic" / f"synthetic_{name}.csv"
        with path.open(newline="") as file:
            rows = list(csv.reader(file))[1:]
        for row, function in zip(rows, np.repeat(range(len(sizes)), sizes), strict=True):
            ours, on_threshold = label(row[:10], function)
            assert ours == row[10] or on_threshold
            assert label(row[:10], function, float)[0] == row[10]
            exact += ours == row[10]
            total += 1
    assert (exact, total) == (8777, 9000)
