"""The rules, what they reach on held-out samples, and how many of each class they keep."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.dummy import DummyClassifier
from sklearn.neighbors import KNeighborsClassifier

from datassay.act.remove.rules import (
    RIDGES,
    RULES,
    Candidates,
    by_learner,
    held_out_margin,
    quota_of,
    tried,
    within_quota,
)
from datassay.act.remove.summarize import summarize
from datassay.collect.collection import collect
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.models.build import build_model
from datassay.progress import silent
from datassay.train.learner import Estimators


def candidates(n=120, seed=0, noise=0.3):
    """Three clusters on the circle; some samples lie between them."""
    g = np.random.default_rng(seed)
    groups = np.arange(n) % 3
    angle = 2 * np.pi * groups / 3 + noise * g.normal(size=n)
    rows = torch.tensor(np.column_stack([np.cos(angle), np.sin(angle)])).float()
    targets = torch.nn.functional.one_hot(torch.as_tensor(groups), 3).float() - 1 / 3
    return Candidates(rows, targets, groups, np.ones(n), True)


@pytest.mark.parametrize("name", RULES)
def test_a_rule_orders_all_samples_and_keeps_its_quota(name):
    some, quota = candidates(), np.array([10, 5, 8])
    order = RULES[name](some, quota, 0, silent)
    assert sorted(order) == list(range(120))
    assert list(np.bincount(some.groups[order[:23]])) == list(quota)


def test_held_out_margins_are_those_of_fits_without_the_sample():
    some = candidates(n=30)
    f, t = some.rows.double(), some.targets.double()
    errors, margins = [], []
    for ridge in RIDGES:
        outputs = torch.zeros_like(t)
        for i in range(30):
            rest = np.delete(np.arange(30), i)
            gram = f[rest].T @ f[rest] + ridge * torch.eye(2).double()
            outputs[i] = f[i] @ torch.linalg.solve(gram, f[rest].T @ t[rest])
        errors.append(float((t - outputs).square().mean()))
        own = outputs[np.arange(30), some.groups].numpy()
        outputs[np.arange(30), some.groups] = -np.inf
        margins.append(own - outputs.max(1).values.numpy())
    expected = margins[int(np.argmin(errors))]
    np.testing.assert_allclose(held_out_margin(some), expected, atol=1e-9)


def test_a_rule_that_keeps_what_is_wrong_reaches_less():
    """A third of the labels is wrong, and they have the smallest margins."""
    some = candidates(n=300, noise=0.2)
    groups = np.where(np.arange(300) % 9 < 3, (some.groups + 1) % 3, some.groups)
    targets = torch.nn.functional.one_hot(torch.as_tensor(groups), 3).float() - 1 / 3
    result = tried(replace(some, groups=groups, targets=targets), np.full(3, 10), seed=0)
    assert set(result) == set(RULES)
    assert result["margin"] < 0.4 < 0.55 < result["fit"] <= 1


def test_targets_are_tried_by_r2():
    some = candidates(n=200)
    targets = some.rows[:, :1] / some.rows[:, 0].std()
    numbers = Candidates(some.rows, targets, np.zeros(200, int), np.ones(200), False)
    result = tried(numbers, np.array([50]), seed=0)
    assert min(result["fit"], result["boundary"], result["random"]) > 0.99


def test_a_learner_judges_by_its_own_fits_on_the_samples_it_did_not_see():
    some, g = candidates(n=60), np.random.default_rng(2)
    samples = SampleSet(some.rows.numpy(), some.groups, np.arange(60), ("a", "b", "c"))
    weight, order = g.random(60), g.permutation(60)
    kept, held = order[:9], order[9:]
    learner = Estimators(KNeighborsClassifier(1), 1)
    x, y = samples.x, samples.y
    nearest = ((x[held][:, None] - x[kept]) ** 2).sum(2).argmin(1)
    expected = np.average(y[kept][nearest] == y[held], weights=weight[held])
    assert by_learner(learner, samples, weight)(kept, held) == pytest.approx(expected)


def test_summarize_asks_the_learner_and_wants_its_samples():
    """What always names the largest class reaches the same by every rule."""
    some = candidates(n=90)
    train = SampleSet(some.rows.numpy(), some.groups, np.arange(90), ("a", "b", "c"))
    lin = collect(build_model("linear", train), train)
    result = summarize(lin, 0.3, learner=DummyClassifier(), train=train)
    assert result.tried == tuple(RULES) and np.ptp(result.held_out) == 0
    assert result.held_out[0] < 0.5 < summarize(lin, 0.3).held_out.min()
    for wrong in (None, train.subset(np.arange(90)[::-1])):
        with pytest.raises(SettingError, match="train must hold the samples of lin"):
            summarize(lin, 0.3, learner=DummyClassifier(), train=wrong)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 6))
def test_quotas_fill_the_target_and_ask_for_no_more_than_there_is(seed, k):
    g = np.random.default_rng(seed)
    counts = g.integers(1, 40, size=k)
    least = g.integers(0, counts + 1)
    total = int(g.integers(least.sum(), counts.sum() + 1))
    quota = quota_of(counts, least, total)
    assert quota.sum() == total
    assert (least <= quota).all() and (quota <= counts).all()


def test_within_quota_moves_surplus_back_and_keeps_the_order():
    groups = np.array([0, 0, 0, 1, 1])
    order = within_quota(np.array([2, 0, 1, 4, 3]), groups, np.array([1, 1]))
    assert list(order) == [2, 4, 0, 1, 3]
