"""Who judges labels besides the fit."""

import warnings
from functools import partial

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_info, threadpool_limits

import datassay as da
from datassay.score.labels import judges as module
from datassay.score.labels.judges import LEAST_PROBABILITY, log_probabilities


def test_no_probability_is_nothing():
    assert log_probabilities(torch.tensor([[0.0, 1.0]]))[0, 0] == np.log(LEAST_PROBABILITY)


def test_trees_of_few_rows_grow_on_one_thread(monkeypatch):
    seen = []

    def note(model, samples, *_):
        seen.append({
            one["num_threads"] for one in threadpool_info() if one["user_api"] == "openmp"
        })
        return np.zeros((len(samples), 2))

    monkeypatch.setattr(module, "held_out_outputs", note)
    samples = da.load((np.eye(20), np.arange(20) % 2), val_fraction=0.0)[0]
    with threadpool_limits(2, "openmp"):
        for most in (20, 19):
            monkeypatch.setattr(module, "ONE_THREAD", most)
            module.held_out_probabilities(samples)
    assert seen == [{1}, {2}]


def test_judges_that_nobody_asked_for_warn_nobody(monkeypatch):
    unfinished = partial(LogisticRegression, max_iter=1)
    monkeypatch.setattr(module, "LogisticRegression", unfinished)
    x = np.random.default_rng(0).normal(size=(1000, 40))
    samples = da.load((x, x[:, :8].argmax(1)), val_fraction=0.0)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with module.judged_ahead(samples, 0) as ahead:
            judged = module.further_judges(samples, 0)
    assert list(judged) == ["boosted trees", "logistic regression"]
    for name, p in ahead.result().items():
        np.testing.assert_array_equal(p, judged[name])
