"""What a second judge of the labels adds to the first."""

import numpy as np
import torch
from scipy.optimize import minimize
from threadpoolctl import threadpool_info, threadpool_limits

import datassay as da
from datassay.score.labels import judges as module
from datassay.score.labels.judges import LEAST_PROBABILITY, judge_weight, log_probabilities


def judges(n=300, k=3, seed=0, second=1.0):
    """Labels drawn from softmax(4 f + second · l): outputs f, log probabilities l."""
    draw = np.random.default_rng(seed)
    f, logits = draw.normal(0.3, 0.3, (n, k)), draw.normal(0, 2, (n, k))
    log_p = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    chance = np.exp(4 * f + second * log_p)
    chance /= chance.sum(1, keepdims=True)
    y = np.array([draw.choice(k, p=p) for p in chance])
    return torch.as_tensor(f), log_probabilities(torch.as_tensor(np.exp(log_p))), torch.as_tensor(y)


def test_the_weight_is_that_of_the_likeliest_mixture():
    f, log_p, y = judges()
    share = np.log(np.bincount(y) / len(y))

    def loss(w):
        logits = w[0] * f.numpy() + w[1] * log_p.numpy() + w[2] * share
        own = logits[np.arange(len(y)), y]
        return (np.logaddexp.reduce(logits, axis=1) - own).mean()

    best = minimize(loss, [1, 1, 0], method="BFGS", options={"gtol": 1e-9}).x
    assert abs(judge_weight(f, log_p, y) / (best[1] / best[0]) - 1) < 1e-3
    assert 0.1 < judge_weight(f, log_p, y) < 0.6  # 1/4 was true


def test_a_judge_that_adds_nothing_or_all():
    f, log_p, y = judges(n=2000, second=-0.5)
    assert judge_weight(f, log_p, y) == 0
    assert judge_weight(-f, *judges(n=2000)[1:]) == float("inf")


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
