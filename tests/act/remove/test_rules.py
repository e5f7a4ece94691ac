"""The rules, what they reach on held-out samples, and how many of each class they keep."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datassay.act.remove.rules import (
    RIDGES,
    RULES,
    Candidates,
    compare_rules,
    held_out_margin,
    split_quota,
    within_quota,
)
from datassay.act.settings import KEEP_RULES
from datassay.progress import silent


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
    result = compare_rules(replace(some, groups=groups, targets=targets), np.full(3, 10), seed=0)
    assert set(result) == set(RULES)
    assert KEEP_RULES == ("auto", *RULES, "information")
    assert result["margin"] < 0.4 < 0.55 < result["fit"] <= 1


def test_targets_are_tried_by_r2():
    some = candidates(n=200)
    targets = some.rows[:, :1] / some.rows[:, 0].std()
    numbers = Candidates(some.rows, targets, np.zeros(200, int), np.ones(200), False)
    result = compare_rules(numbers, np.array([50]), seed=0)
    assert min(result["fit"], result["boundary"], result["random"]) > 0.99


@settings(max_examples=50, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 6))
def test_quotas_fill_the_target_and_ask_for_no_more_than_there_is(seed, k):
    g = np.random.default_rng(seed)
    counts = g.integers(1, 40, size=k)
    least = g.integers(0, counts + 1)
    total = int(g.integers(least.sum(), counts.sum() + 1))
    quota = split_quota(counts, least, total)
    assert quota.sum() == total
    assert (least <= quota).all() and (quota <= counts).all()


def test_within_quota_moves_surplus_back_and_keeps_the_order():
    groups = np.array([0, 0, 0, 1, 1])
    order = within_quota(np.array([2, 0, 1, 4, 3]), groups, np.array([1, 1]))
    assert list(order) == [2, 4, 0, 1, 3]
