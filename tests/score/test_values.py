"""values against their definition: every subset, every removal fitted again."""

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.stats import t
from sklearn.datasets import load_diabetes, load_digits
from sklearn.ensemble import ExtraTreesClassifier

import datassay as da
from datassay.errors import DataError, SettingError
from datassay.score.linear.subsets import SubsetFits
from datassay.score.values import FEWEST
from helpers.linearizations import random_linearization

RANDOM = torch.Generator().manual_seed(0)


def draw(*shape):
    return torch.randn(*shape, generator=RANDOM, dtype=torch.float64)


def fits(n, r, k=3, m=9):
    a = torch.linalg.svd(draw(n, r), full_matrices=False)[0] * torch.rand(min(n, r)).double()
    other, truth, targets = draw(m, a.shape[1]), draw(n + m, k), draw(n, k)
    predicted = torch.cat([a, other])
    products = a.T @ a, a.T @ targets
    gram = predicted.T @ predicted
    return SubsetFits(a, other, targets, truth, 0.3, products, gram, predicted.T @ truth)


def error(of, subset, others):
    """Mean squared error on other inputs of the fit to a subset."""
    a, eye = of.a[subset], torch.eye(of.a.shape[1], dtype=torch.float64)
    weights = torch.linalg.solve(a.T @ a + of.penalty * eye, a.T @ of.targets[subset])
    return float((of.predict(weights) - of.truth)[others].square().sum(1).mean())


@pytest.mark.parametrize(("n", "r"), [(16, 5), (12, 20)], ids=["primal", "dual"])
def test_a_removal_from_a_subset_is_the_fit_without_it_on_all_other_inputs(n, r):
    of = fits(n, r)
    subset = torch.randperm(n, generator=RANDOM)[:-4]
    gains, weights = of.gains(subset)
    for i, sample in enumerate(subset.tolist()):
        others = torch.arange(len(of.truth)) != sample
        wanted = error(of, subset[subset != sample], others) - error(of, subset, others)
        assert float(gains[i]) == pytest.approx(wanted, rel=1e-9, abs=1e-11)
    found = float((of.predict(weights) - of.truth).square().sum(1).mean())
    assert found == pytest.approx(error(of, subset, torch.arange(len(of.truth))), rel=1e-10)


@pytest.mark.parametrize("semivalue", ["beta", "shapley"])
def test_the_mean_over_subsets_is_the_semivalue(semivalue, monkeypatch):
    n = FEWEST + 3
    lin = random_linearization(n, 1, 2, 6, 4, seed=1)
    caught, gains = [], SubsetFits.gains

    def spied(self, subset):
        caught.append(self)
        return gains(self, subset)

    monkeypatch.setattr(SubsetFits, "gains", spied)
    found = da.values(lin, semivalue=semivalue, n_subsets=1500)
    sizes = range(FEWEST, n + 1)
    mean = np.zeros((len(sizes), n))
    for row, size in enumerate(sizes):
        seen, total = np.zeros(n), np.zeros(n)
        for subset in combinations(range(n), size):
            at = torch.tensor(subset)
            seen[at] += 1
            total[at] += gains(caught[0], at)[0].numpy()
        mean[row] = total / seen
    weights = np.array([1.0] * len(sizes) if semivalue == "shapley" else list(sizes))
    edges = np.array([0.5 if size in (FEWEST, n) else 1.0 for size in sizes])  # sizes are rounded
    wanted = (edges * weights) @ mean / (edges * weights).sum()
    half = (found.high - found.low) / 2
    scale = (found.value * wanted).sum() / (wanted**2).sum()
    assert np.abs(found.value - scale * wanted).max() < 2 * half.max()
    assert np.corrcoef(found.value, wanted)[0, 1] > 0.995


def noisy_digits(n=300, m=100, share=0.2):
    x, y = load_digits(return_X_y=True)
    draw = np.random.default_rng(0)
    rows = draw.permutation(len(x))[: n + m]
    x, y = x[rows].astype(np.float32), y[rows]
    wrong = draw.random(n + m) < share
    y[wrong] = (y[wrong] + draw.integers(1, 10, wrong.sum())) % 10
    return (x[:n], y[:n]), (x[n:], y[n:]), wrong[:n]


def test_wrong_labels_are_worth_least_though_validation_labels_are_wrong_too():
    train, val, wrong = noisy_digits()
    found = da.values(train, val)
    assert found.value[wrong].mean() < 0 < found.value[~wrong].mean()
    below = found.high < 0
    assert wrong[below].mean() > 0.85 and below.sum() > wrong.sum() / 2
    assert (found.low < found.value).all() and (found.value < found.high).all()
    alone = da.values(train)
    assert wrong[np.argsort(alone.value)[: wrong.sum()]].mean() > 0.75
    assert found.unit == "accuracy" and found.follows > 0.9
    assert found.to_table().column_names[:2] == ["id", "data_value"]


def test_the_sum_is_about_what_all_samples_bring():
    train, val, _ = noisy_digits(share=0.0)
    found = da.values(train, val, semivalue="shapley")
    assert 0.2 < found.value.sum() < 0.5  # from the accuracy of twenty samples to that of all


def test_a_linearised_network_is_valued_on_its_own_validation_samples():
    (x, y), (val_x, val_y), wrong = noisy_digits(n=150, m=60)
    train, val = da.load((x, y), val=(val_x, val_y))
    found = da.values(da.collect(da.build_model("mlp:width=64", train), train, val))
    assert found.value[wrong].mean() < 0 < found.value[~wrong].mean()
    assert list(found.ids) == list(train.ids)


def test_numbers_are_told_in_parts_of_their_variance_and_outliers_are_no_truth():
    x, y = load_diabetes(return_X_y=True)
    y[:10] *= 12
    found = da.values((x[:200], y[:200]), (x[200:], y[200:]))
    assert found.unit == "share of variance" and np.isnan(found.follows)
    assert set(np.argsort(found.value)[:6]) <= set(range(10))
    assert da.values((x, np.stack([y, x[:, 0]], 1))).unit == found.unit  # of several targets


def test_out_of_bag_values_are_predictions_by_trees_that_did_not_see_the_sample():
    train, val, wrong = noisy_digits(n=120, m=60)
    found = da.values(train, val, semivalue="out_of_bag", n_subsets=30)
    draw, votes = np.random.default_rng(0), [[] for _ in range(120)]
    x, y = (np.concatenate(pair) for pair in zip(train, val, strict=True))
    for _ in range(30):
        bag = draw.integers(180, size=180)
        trees = ExtraTreesClassifier(5, random_state=int(draw.integers(2**31))).fit(x[bag], y[bag])
        for i in set(range(120)) - set(bag.tolist()):
            own = np.flatnonzero(trees.classes_ == y[i])
            votes[i].append(float(trees.predict_proba(x[[i]])[0, own].sum()))
    np.testing.assert_allclose(found.value, [np.mean(v) for v in votes], atol=1e-12)
    half = [t.ppf(0.975, len(v) - 1) * np.std(v, ddof=1) / len(v) ** 0.5 for v in votes]
    np.testing.assert_allclose(found.high - found.value, half, atol=1e-9)
    assert wrong[np.argsort(found.value)[: wrong.sum()]].mean() > 0.75
    assert (found.unit, found.semivalue, found.n_subsets) == ("accuracy", "out_of_bag", 30)


def test_out_of_bag_values_of_numbers_are_lowest_where_units_are_wrong():
    x, y = load_diabetes(return_X_y=True)
    y[:10] *= 12
    found = da.values((x[:200], y[:200]), semivalue="out_of_bag")
    assert set(np.argsort(found.value)[:6]) <= set(range(10))
    assert found.unit == "share of variance" and found.value.max() <= 1
    two = da.values((x[:60], np.stack([y, y], 1)[:60]), semivalue="out_of_bag", n_subsets=20)
    one = da.values((x[:60], y[:60]), semivalue="out_of_bag", n_subsets=20)
    np.testing.assert_allclose(two.value, one.value, atol=0.05)


def test_what_cannot_be_valued_is_refused():
    train, val, _ = noisy_digits(n=60)
    with pytest.raises(SettingError, match="semivalue must be one of"):
        da.values(train, semivalue="owen")
    with pytest.raises(SettingError, match="at least 2"):
        da.values(train, n_subsets=1)
    with pytest.raises(DataError, match="at least 10 samples; got 9"):
        da.values((train[0][:9], train[1][:9]))
    with pytest.raises(SettingError, match="got a linearisation"):
        da.values(random_linearization(20, 1, 2, 6, 4, seed=1), semivalue="out_of_bag")
    with pytest.raises(SettingError, match="got val too"):
        da.values(random_linearization(20, 1, 2, 6, 4, seed=1), val)
