"""Label noise: exact counts, truth kept, the same for the same seed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import datassay as da
from datassay.data.samples import SampleSet
from datassay.errors import DataError


def samples(n=600, n_classes=4, seed=0):
    y = np.random.default_rng(seed).integers(0, n_classes, n)
    names = tuple("abcdefgh"[:n_classes])
    return SampleSet(np.zeros((n, 1)), y, np.arange(n), class_names=names)


@settings(deadline=None)
@given(
    n=st.integers(1, 80),
    n_classes=st.integers(2, 5),
    rate=st.floats(0, 1),
    kind=st.sampled_from(["uniform", "pair"]),
    seed=st.integers(0, 100),
)
def test_exactly_the_rate_is_changed_and_the_truth_kept(n, n_classes, rate, kind, seed):
    clean = samples(n, n_classes, seed)
    noisy = da.add_label_noise(clean, rate, kind=kind, seed=seed)
    flipped = noisy.y != clean.y
    assert flipped.sum() == round(rate * n)
    assert np.array_equal(noisy.true_y, clean.y)
    assert noisy.ids is clean.ids and noisy.x is clean.x
    if kind == "pair":
        assert np.array_equal(noisy.y[flipped], (clean.y[flipped] + 1) % n_classes)
    again = da.add_label_noise(clean, rate, kind=kind, seed=seed)
    assert np.array_equal(noisy.y, again.y)


def test_uniform_noise_spreads_evenly_over_the_other_classes():
    clean = samples(6000)
    noisy = da.add_label_noise(clean, 0.5)
    counts = np.histogram2d(clean.y, noisy.y, bins=4)[0]
    others = counts[~np.eye(4, dtype=bool)]  # each expects 6000 · 0.5 / 12 = 250, sd 15
    assert np.abs(others - 250).max() < 60


def test_a_mapping_changes_its_classes_only():
    clean = samples()
    noisy = da.add_label_noise(clean, 0.25, kind={"a": "b", 2: 3})
    flipped = noisy.y != clean.y
    assert flipped.sum() == round(0.25 * np.isin(clean.y, (0, 2)).sum())
    assert np.array_equal(noisy.y[flipped], clean.y[flipped] + 1)
    assert set(clean.y[flipped]) == {0, 2}


def test_a_matrix_gives_each_class_its_own_rates():
    clean = samples(8000)
    matrix = np.array([[0.7, 0.3, 0, 0], [0, 1, 0, 0], [0.1, 0.2, 0.3, 0.4], [0, 0, 1, 0]])
    noisy = da.add_label_noise(clean, None, kind=matrix, seed=2)
    counts = np.histogram2d(clean.y, noisy.y, bins=4)[0]
    rates = counts / counts.sum(axis=1, keepdims=True)
    assert np.abs(rates - matrix).max() < 0.04  # 4 sd of a rate over 2,000 draws
    assert (rates[matrix == 0] == 0).all()
    assert np.array_equal(noisy.true_y, clean.y)


def test_noise_upon_noise_keeps_the_first_truth():
    clean = samples()
    twice = da.add_label_noise(da.add_label_noise(clean, 0.2), 0.2, seed=1)
    assert np.array_equal(twice.true_y, clean.y)
    assert np.array_equal(twice.subset(np.arange(5)).true_y, clean.y[:5])


@pytest.mark.parametrize(
    ("rate", "kind", "message"),
    [
        (-0.1, "uniform", r"rate must lie in \[0, 1\].* got -0.1"),
        (1.1, "pair", "got 1.1"),
        (float("nan"), "pair", "got nan"),
        (None, "uniform", "got None with 'uniform'"),
        (0.2, np.eye(4), "None if kind is a matrix; got 0.2"),
        (0.2, "symmetric", "kind must be 'uniform', 'pair'.* got 'symmetric'"),
        (0.2, {"z": "a"}, "must name classes.* got 'z'"),
        (0.2, {0: 4}, "must name classes.* got 4"),
        (None, np.eye(3), r"must be \[4, 4\].* got float64 in shape \[3, 3\]"),
        (None, [["a"]], "transition matrix must be"),
        (None, [[1], [1, 2]], "rows all have one shape"),
        (None, np.eye(4) * 2, "rows sum to 1"),
        (None, np.eye(4) + np.eye(4)[::-1] - np.ones((4, 4)) / 4, "smallest entry of -0.25"),
    ],
)
def test_what_is_refused(rate, kind, message):
    with pytest.raises(DataError, match=message):
        da.add_label_noise(samples(), rate, kind=kind)
