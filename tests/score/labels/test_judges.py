"""Who judges labels besides the fit."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_info, threadpool_limits

import datassay as da
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.models import table_estimators, tabular
from datassay.models.tabular import LOGISTIC, TREES
from datassay.score.labels import judges as module
from datassay.score.labels.judges import LEAST_PROBABILITY, log_probabilities


def test_no_probability_is_nothing():
    assert log_probabilities(torch.tensor([[0.0, 1.0]]))[0, 0] == np.log(LEAST_PROBABILITY)


@pytest.mark.parametrize(("n", "k", "kind", "seconds", "names"), [
    (39, 2, "row", 0.1, []), (40, 2, "row", 0.1, [TREES, LOGISTIC]), (80, 2, "image", 0.1, []),
    (80, 20, "row", 0.1, [TREES, LOGISTIC]), (80, 21, "row", 0.1, []), (80, 0, "row", 0.1, []),
    (80, 2, "row", 7 / 3, [TREES, LOGISTIC]), (80, 2, "row", 2.34, [LOGISTIC]),
    (80, 1, "row", 0.1, [TREES, LOGISTIC]), (80, 2, "text", 0.1, [LOGISTIC]),
])  # fmt: skip
def test_who_judges_by_rows_classes_and_seconds(n, k, kind, seconds, names, monkeypatch):
    asked = []
    monkeypatch.setattr(module, "fit_seconds", lambda *sizes: asked.append(sizes) or seconds)
    y, classes = np.arange(n) % max(k, 1), tuple(f"k{i}" for i in range(k))
    samples = SampleSet(np.zeros((n, 4)), y if k else y + 0.5, np.arange(n), classes, kind=kind)
    chosen = module._choose_models(samples)
    assert list(chosen) == names and set(asked) <= {(n, 4, k)}
    if kind == "text":
        assert type(chosen[LOGISTIC]) is LogisticRegression
    monkeypatch.setattr(module, "MOST_ROWS", n - 1)
    module._tree_seconds(samples)
    assert asked[-1] == (n - 1, 4, k)


@pytest.mark.parametrize(("n", "seconds", "splits"), [
    (2000, 0.01, 5), (2001, 0.01, 4), (5000, 0.01, 2), (10_001, 0.01, 1), (100, 0.13, 5),
    (100, 0.14, 4), (100, 0.3, 2), (100, 1.0, 1),
])  # fmt: skip
def test_splits_are_as_many_as_rows_and_seconds_allow(n, seconds, splits, monkeypatch):
    monkeypatch.setattr(module, "fit_seconds", lambda *_: seconds)
    samples = SampleSet(np.zeros((n, 1)), np.arange(n) % 2, np.arange(n), ("a", "b"))
    assert module._count_splits(samples) == splits


@pytest.mark.parametrize(("n", "n_wrong", "low", "n_told"), [
    (9, 0, 0, 0), (10, 0, 0, 1), (10, 1, 0, 0), (100, 1, 0, 1), (100, 2, 0, 0), (100, 2, 3, 1),
    (100, 0, 3, 2),
])  # fmt: skip
def test_probabilities_that_agree_or_are_nothing_are_told(n, n_wrong, low, n_told):
    p = torch.tensor([[0.8, 0.2]]).repeat(n, 1)
    p[:low] = torch.tensor([1.0, 0.0])
    labels = (torch.arange(n) < n_wrong).long()
    told = module.judge_warnings(p, labels)
    assert len(told) == n_told and (low == 0 or told[0].startswith(f"{low / 2 / n:.0%} of the"))


def test_groups_are_words_of_two_or_more():
    assert module.checked_groups(None, 3) is None
    assert module.checked_groups([1, 2, 2], 3).tolist() == ["1", "2", "2"]
    for groups, got in (([1, 1, 1], "got '1' of all"), ([1, 2], r"got shape \(2,\)")):
        with pytest.raises(SettingError, match=got):
            module.checked_groups(groups, 3)


def test_trees_of_few_rows_grow_on_one_thread(monkeypatch):
    seen = []

    class Noted(DummyClassifier):
        def __init__(self, **_):
            super().__init__()

        def fit(self, *args, **kwargs):
            seen.append({
                one["num_threads"] for one in threadpool_info() if one["user_api"] == "openmp"
            })
            return super().fit(*args, **kwargs)

    monkeypatch.setattr(table_estimators, "HistGradientBoostingClassifier", Noted)
    samples = da.load((np.eye(20), np.arange(20) % 2), val_fraction=0.0)[0]
    with threadpool_limits(2, "openmp"):
        for most in (16, 15):  # four fifths of them
            monkeypatch.setattr(tabular, "ONE_THREAD", most)
            module.held_out_probabilities(samples)
    assert seen == 5 * [{1}] + 5 * [{2}]


def test_linear_judges_of_few_rows_take_one_thread(monkeypatch):
    seen = []

    class Noted(LogisticRegression):
        def fit(self, *args, **kwargs):
            pools = [one for one in threadpool_info() if one["user_api"] == "blas"]
            seen.append(max(one["num_threads"] for one in pools))  # some have one from the start
            return super().fit(*args, **kwargs)

    monkeypatch.setattr(table_estimators, "LogisticRegression", Noted)
    x = np.random.default_rng(0).normal(size=(100, 3))
    samples = da.load((x, x[:, 0] > 0), val_fraction=0.0)[0]
    with threadpool_limits(2, "blas"):
        for most in (100, 79):  # four fifths are fitted to
            monkeypatch.setattr(tabular, "ONE_THREAD", most)
            module.further_judges(samples, 0)
    assert seen == 5 * [1] + 5 * [2]


def test_judges_that_nobody_asked_for_warn_nobody(monkeypatch):
    def unfinished(**settings):
        return LogisticRegression(**settings | {"max_iter": 1})

    monkeypatch.setattr(table_estimators, "LogisticRegression", unfinished)
    monkeypatch.setattr(module, "MOST_SPLITS", 1)
    rng = np.random.default_rng(0)
    samples = da.load((rng.normal(size=(1000, 4)), rng.integers(3, size=1000)), val_fraction=0.0)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with module.judge_in_background(samples, 0) as ahead:
            judged = module.further_judges(samples, 0)
    assert list(judged) == ["boosted trees", "logistic regression"]
    for name, p in ahead.result().items():
        np.testing.assert_array_equal(p, judged[name])


def test_trees_that_take_little_are_averaged_over_splits(monkeypatch):
    rng = np.random.default_rng(0)  # of labels by lot trees learn nothing, and soon end
    samples = da.load((rng.normal(size=(1000, 2)), rng.integers(2, size=1000)), val_fraction=0.0)[0]
    model = table_estimators.TableClassifier(parts=[[0], [1]], quick=True)
    each = [module.held_out_probabilities(samples, model, seed=seed) for seed in range(3, 8)]
    assert not np.allclose(each[0], each[1])
    trees = module.further_judges(samples, 3)["boosted trees"]
    np.testing.assert_allclose(trees, np.mean(each, 0))
    monkeypatch.setattr(module, "SPLITS_SECONDS", 0.0)
    np.testing.assert_array_equal(module.further_judges(samples, 3)["boosted trees"], each[0])
