"""The same model on samples before and after a review, asked about the same held-out samples."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsClassifier

from datassay.act.review.gain import AGREED, EARLIER, NOW, Corrected, Trial, review_gain
from datassay.data import SampleSet
from datassay.train.learner import Estimators


def classes(x, y):
    x = np.asarray(x, dtype=float)[:, None]
    return SampleSet(x, np.array(y), np.arange(len(x)), ("a", "b"))


def unchanged(samples):
    return Corrected(samples, samples.y, np.ones(len(samples), dtype=bool))


def measured(*trials):
    gain = review_gain(trials)
    assert gain is not None
    return gain


def nearest(train, held_out):
    return Trial(train, held_out, Estimators(KNeighborsClassifier(1), 2))


@pytest.fixture
def train():
    """At 0 and 1 lies class a, at 10 and 11 class b; that of 1 is wrong, and 30 is an outlier."""
    samples = classes([0, 1, 10, 11, 30], [0, 1, 1, 1, 0])
    return Corrected(samples, np.array([0, 0, 1, 1, 0]), np.array([True] * 4 + [False]))


def test_scores_are_those_of_the_nearest_neighbour(train):
    held_out = classes([0.1, 0.9, 1.1, 10.1, 29.0], [0, 0, 0, 1, 1])
    gain = measured(nearest(train, unchanged(held_out)))
    (row,) = gain.rows
    assert (row.by, row.n, row.before, row.after) == (AGREED, 5, 0.4, 1.0)
    assert gain.gain == pytest.approx(0.6)
    assert row.low < gain.gain < row.high
    assert (gain.metric, gain.n_seeds, gain.n_parts) == ("accuracy", 2, 1)


def test_held_out_labels_that_were_changed_favour_no_side(train):
    samples = classes([0.1, 0.9, 1.1, 10.1, 10.2], [0, 1, 0, 1, 0])
    held_out = Corrected(samples, np.array([0, 0, 0, 1, 0]), np.array([True] * 4 + [False]))
    gain = measured(nearest(train, held_out))
    by = {row.by: (row.n, row.before, row.after) for row in gain.rows}
    assert by[AGREED] == (3, 2 / 3, 1.0)  # without 0.9, which was mended, and 10.2, which is gone
    assert by[NOW] == (4, 0.5, 1.0)
    assert by[EARLIER] == (5, 0.6, 0.6)


def test_folds_are_counted_by_their_samples(train):
    few, many = classes([0.9], [0]), classes([0.1, 10.1, 10.2], [0, 1, 1])
    gain = measured(nearest(train, unchanged(few)), nearest(train, unchanged(many)))
    assert gain.n_parts == 2
    assert gain.gain == pytest.approx(0.25)
    assert gain.to_table().to_pylist()[0]["n"] == 4


def test_nothing_changed_is_no_gain_and_without_agreement_nothing_is_said(train):
    same = unchanged(train.samples)
    gain = measured(nearest(same, unchanged(classes([0.1, 10.1, 29.0], [0, 1, 0]))))
    assert gain.gain == 0
    assert gain.rows[0].low < 0 < gain.rows[0].high
    other = Corrected(classes([0.1, 10.1], [0, 1]), np.array([1, 1]), np.array([True, True]))
    assert review_gain([nearest(train, other)]) is None


def test_targets_are_scored_by_r2():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 1))
    true = 2 * x[:, 0] + rng.normal(0, 0.01, 60)
    y = true.copy()
    y[:5] += 30.0
    samples, ids = SampleSet(x[:40], y[:40], np.arange(40)), np.arange(40, 60)
    held_out = unchanged(SampleSet(x[40:], y[40:], ids))
    corrected = Corrected(samples, true[:40], np.ones(40, dtype=bool))
    gain = measured(Trial(corrected, held_out, Estimators(LinearRegression(), 2)))
    assert gain.metric == "R²"
    assert gain.rows[0].after > 0.99 > gain.rows[0].before
    fit = LinearRegression().fit(x[:40], y[:40]).predict(x[40:])
    r2 = 1 - ((fit - y[40:]) ** 2).mean() / y[40:].var()
    assert gain.rows[0].before == pytest.approx(r2, rel=1e-9)


def test_parts_of_targets_share_one_variance():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 1))
    y = np.exp(2 * x[:, 0])
    given = np.where(np.arange(60) < 4, 30.0, y)
    before = SampleSet(x[:20], given[:20], np.arange(20))
    train = Corrected(before, y[:20], np.ones(20, dtype=bool))
    parts = np.split(np.argsort(y[20:]) + 20, 2)  # low and high ones: variances far apart
    trials = [
        Trial(train, unchanged(SampleSet(x[p], y[p], p)), Estimators(LinearRegression(), 2))
        for p in parts
    ]
    (row,) = measured(*trials).rows
    errors = [np.square(LinearRegression().fit(x[:20], t[:20]).predict(x[20:]) - y[20:]).mean()
              for t in (given, y)]  # fmt: skip
    assert [row.before, row.after] == pytest.approx(1 - np.array(errors) / y[20:].var())
