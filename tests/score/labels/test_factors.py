"""Wrong targets that one factor explains, and how many may hide among right ones."""

import numpy as np
import pytest
import torch
from torch.distributions import StudentT

from datassay.score.labels.factors import weigh_factor
from datassay.score.labels.outliers import outliers

N, UNIT = 500, 0.4


def drawn(seed=0, factor=1.0, share=0.08):
    """Targets beside held-out outputs that miss each by a normal deviate, some times a factor."""
    rng = np.random.default_rng(seed)
    output = 2 * torch.from_numpy(rng.normal(size=N))
    y, wrong = output + UNIT * torch.from_numpy(rng.normal(size=N)), rng.random(N) < share
    y[wrong] *= factor
    return y, output, wrong


def explained(y, output):
    t = StudentT(30.0, 0.0, UNIT)
    return weigh_factor(y, lambda v: t.log_prob(v - output), t.log_prob(y - output), is_bent=False)


@pytest.mark.parametrize("factor", [-1.0, 10.0, 1 / 12])
def test_a_factor_that_wrong_targets_share_names_them_and_their_share(factor):
    y, output, wrong = drawn(factor=factor)
    probability, most = explained(y, output)
    surely = probability.numpy() > 0.9
    assert surely.sum() > wrong.sum() / 3 and wrong[surely].mean() > 0.95
    assert wrong.mean() <= most < 0.25


@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_right_targets_and_what_is_no_unit_are_left_alone(factor):
    """Three times is no unit, though ten and a seventh of these explain some of them."""
    y, output, _ = drawn(factor=factor, share=0.2)
    probability, most = explained(y, output)
    assert not probability.any() and most == 0


def test_bent_targets_and_plain_ones_are_explained_alike():
    """The slope of asinh takes part in the density: both scales give the same probabilities."""
    y, output, _ = drawn(factor=10.0)
    t = StudentT(30.0, 0.0, UNIT)
    plain, _ = explained(y, output)
    slope = (1 + y**2).log() / 2
    bent, _ = weigh_factor(
        torch.asinh(y),
        lambda v: t.log_prob(torch.sinh(v) - output) + torch.cosh(v).log(),
        t.log_prob(y - output) + slope,
        is_bent=True,
    )
    torch.testing.assert_close(bent, plain)


@pytest.mark.parametrize("seed", range(4))
def test_swapped_targets_that_hide_lie_within_what_is_said(seed):
    rng = np.random.default_rng(seed)
    output = 2 * rng.normal(size=N)
    y, rows = output + 1.5 * rng.normal(size=N), rng.permutation(N)[:50]
    y[rows] = y[np.roll(rows, 1)]
    found = outliers(torch.from_numpy(y)[:, None], torch.from_numpy(output)[:, None])
    assert found.most >= 0.09 and (found.probability > 0.5).double().mean() < 0.05


def test_of_a_good_fit_hardly_any_may_hide():
    y, output, _ = drawn()
    assert outliers(y[:, None], output[:, None]).most <= 0.01


def test_targets_that_are_all_alike_hide_none():
    y = torch.ones(20, 1, dtype=torch.float64)
    assert outliers(y, y.clone()).most == 0
