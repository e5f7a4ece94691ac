"""Who judges labels besides the fit."""

import numpy as np
import torch
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
