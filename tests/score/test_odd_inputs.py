"""Odd inputs: each score against its definition, its units, its refusals, and what it finds."""

import numpy as np
import pytest
from scipy.stats import norm, rankdata
from sklearn.covariance import ledoit_wolf
from sklearn.datasets import load_breast_cancer

from datassay.act import auroc
from datassay.data import SampleSet
from datassay.errors import DataError
from datassay.score import data_issues, odd_inputs


def mixed(n=120, d=5, seed=0):
    """Two classes of correlated columns."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    x = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 2 * y[:, None]
    return SampleSet(x, y, np.arange(n), class_names=("a", "b"))


def by_hand(samples, information, label_score, outlier_score):
    """The docstring's equations, sample by sample."""
    x, y = samples.x, samples.y
    x = (x - x.mean(0)) / x.std(0)
    within = np.stack([row - x[y == c].mean(0) for row, c in zip(x, y, strict=True)])
    precision = np.linalg.inv(ledoit_wolf(within, assume_centered=True)[0])
    deviation, distance, disagreement = [], [], []
    apart = np.linalg.norm(x[:, None] - x, axis=2)
    np.fill_diagonal(apart, np.inf)
    near = []
    for i, row in enumerate(within):
        residuals = [precision[j] @ row / precision[j, j] ** 0.5 for j in range(len(row))]
        deviation.append(np.mean([np.log(1 + r * r) for r in residuals]))
        own = [j for j in np.argsort(apart[i]) if y[j] == y[i] and j != i][:5]
        near.append(own)
        distance.append(apart[i, own].mean())
        disagreement.append(np.mean(y[np.argsort(apart[i])[:20]] != y[i]))
    distance = np.array(distance)
    ratio = np.log(distance / np.array([distance[own].mean() for own in near]))
    z = [(v - np.mean(v)) / np.std(v) for v in (np.array(deviation), ratio)]
    signs = [outlier_score, np.array(deviation), np.array(disagreement), label_score]
    surprise = 0
    for v in signs:
        off = v - np.median(v)
        width = 1.4826 * np.median(np.abs(off)) or 1.2533 * np.abs(off).mean()
        surprise = surprise - np.log(1 - norm.cdf(off / width))
    ranks = [rankdata(v) / len(v) for v in (disagreement, distance, information)]
    return (z[0] + z[1]) / 2**0.5, surprise, np.mean(ranks, 0)


def test_definition():
    samples, rng = mixed(), np.random.default_rng(1)
    given = {name: rng.random(120) for name in ("information", "label_score", "outlier_score")}
    found, expected = odd_inputs(samples, **given), by_hand(samples, **given)
    np.testing.assert_allclose(found.noise, expected[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.adversarial, expected[1], rtol=1e-9)
    np.testing.assert_allclose(found.rare_group, expected[2], rtol=1e-12)


def test_units_of_columns_and_constant_ones_change_nothing():
    samples = mixed()
    outliers = data_issues(samples).outlier_score
    x = np.column_stack([1e3 + samples.x * [1e-6, 1e8, 1, 3, 0.1], np.full(120, 7.0)])
    moved = SampleSet(x, samples.y, samples.ids, class_names=("a", "b"))
    base, other = (odd_inputs(s, outlier_score=outliers) for s in (samples, moved))
    for name in ("noise", "adversarial", "rare_group"):
        np.testing.assert_allclose(getattr(other, name), getattr(base, name), rtol=1e-5, atol=1e-6)


def test_without_other_scores_it_uses_what_it_has():
    samples = mixed()
    outliers = data_issues(samples).outlier_score
    alone, given = odd_inputs(samples), odd_inputs(samples, outlier_score=outliers)
    np.testing.assert_array_equal(alone.adversarial, given.adversarial)
    assert alone.to_table().column_names == [
        *("id", "noise_score", "adversarial_score", "rare_group_score")
    ]


def test_noise_and_moved_inputs_are_found_in_real_rows():
    x, y = load_breast_cancer(return_X_y=True)
    x = (x - x.mean(0)) / x.std(0)
    rng = np.random.default_rng(0)
    is_noisy = rng.random(len(x)) < 0.1
    noisy = x + is_noisy[:, None] * rng.normal(size=x.shape) / 2
    samples = SampleSet(noisy, y, np.arange(len(x)), class_names=("a", "b"))
    found = odd_inputs(samples)
    assert auroc(is_noisy, found.noise) > 0.97
    assert auroc(is_noisy, found.adversarial) > 0.9


def test_a_small_group_within_a_class_is_found():
    rng = np.random.default_rng(3)
    part = rng.permutation(np.repeat([0, 1, 2, 3], [200, 180, 200, 8]))
    x = 6 * np.eye(4)[part] + rng.normal(size=(len(part), 4))
    samples = SampleSet(x, part % 2, np.arange(len(part)), class_names=("a", "b"))
    assert auroc(part == 3, odd_inputs(samples).rare_group) > 0.9


def test_copies_single_members_and_regressions():
    samples = mixed(60)
    x, y = samples.x.copy(), samples.y.copy()
    x[1:12] = x[0]
    y[1:12], y[-1] = y[0], 2
    names = ("a", "b", "c")
    found = odd_inputs(SampleSet(x, y, samples.ids, class_names=names))
    for name in ("noise", "adversarial", "rare_group"):
        assert np.isfinite(getattr(found, name)).all()
    regression = odd_inputs(SampleSet(x, x[:, 0], samples.ids))
    assert np.isfinite(regression.noise).all() and np.isnan(regression.adversarial).all()
    assert np.isnan(regression.rare_group).all()
    few = odd_inputs(mixed(21))
    assert np.isnan(few.noise).all() and few.to_table()["noise_score"].null_count == 21


def test_scores_of_other_samples_are_refused():
    with pytest.raises(DataError, match="information must have a value per sample, 120; got 3"):
        odd_inputs(mixed(), information=np.zeros(3))
