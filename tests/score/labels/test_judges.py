"""Who judges labels besides the fit."""

import warnings

import numpy as np
import torch
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_info, threadpool_limits

import datassay as da
from datassay.models import table_estimators, tabular
from datassay.score.labels import judges as module
from datassay.score.labels.judges import LEAST_PROBABILITY, log_probabilities


def test_no_probability_is_nothing():
    assert log_probabilities(torch.tensor([[0.0, 1.0]]))[0, 0] == np.log(LEAST_PROBABILITY)


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
    x = np.random.default_rng(0).normal(size=(1000, 3))
    samples = da.load((x, x[:, 0] > 0), val_fraction=0.0)[0]
    with threadpool_limits(2, "blas"):
        for most in (1000, 799):  # four fifths are fitted to
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
