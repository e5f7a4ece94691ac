"""Growing a keep-set beside fits made from scratch, and the short rows that it works on."""

import numpy as np
import pytest
import torch

from datassay.act.remove import growth as module
from datassay.act.remove.growth import BOUNDARY, FIT, Fit, grow, unit_rows
from helpers.linearizations import linearization, random_jacobians


def problem(n=30, p=6, k=3, seed=0):
    g = torch.Generator().manual_seed(seed)
    rows = torch.randn(n, p, generator=g)
    groups = np.arange(n) % k
    targets = torch.nn.functional.one_hot(torch.as_tensor(groups), k).float() - 1 / k
    return rows / rows.norm(dim=1, keepdim=True), targets, groups


def loss_of(rows, targets, kept, noise, importance, error):
    """Weighted variance, and squared error, of the fit to some samples, from its definition."""
    f, t = rows.double(), targets.double()
    precision = torch.eye(f.shape[1]).double()
    pull = torch.zeros(f.shape[1], t.shape[1]).double()
    for j in kept:
        precision += torch.outer(f[j], f[j]) / noise[j]
        pull += torch.outer(f[j], t[j]) / noise[j]
    covariance = torch.linalg.inv(precision)
    variance = (f @ covariance * f).sum(1)
    left = (t - f @ (covariance @ pull)).square().sum()
    return (importance * variance).sum() + (left if error else 0)


@pytest.mark.parametrize("aim", [FIT, BOUNDARY])
def test_a_gain_is_what_a_fit_from_scratch_gains(aim):
    rows, targets, _ = problem()
    fit = Fit(rows, targets, aim)
    noise: dict[int, float] = {}
    for j in (3, 17, 8):
        noise[j] = float(fit.noise[j])
        fit.add(j)
    fit.weigh_samples()
    left = (targets - rows @ fit.weights).square().sum(1)
    importance = left if aim.at_residuals else torch.ones(len(rows))
    shared = (importance.double(), aim.error)
    before = loss_of(rows, targets, noise, noise, *shared)
    others = np.setdiff1d(np.arange(len(rows)), list(noise))
    expected = [
        before - loss_of(rows, targets, [*noise, j], noise | {j: float(fit.noise[j])}, *shared)
        for j in others
    ]
    torch.testing.assert_close(
        fit.gains(others).double(), torch.stack(expected), rtol=2e-3, atol=1e-4
    )


@pytest.mark.parametrize("aim", [FIT, BOUNDARY])
def test_the_greedy_order_is_that_of_the_best_of_all(aim):
    """With a pool of all samples: each step's choice is the largest gain of its group."""
    rows, targets, groups = problem()
    quota = np.array([4, 3, 2])
    order = grow(rows, targets, groups, quota, aim, pool=len(rows))
    assert sorted(order) == list(range(30))
    assert list(np.bincount(groups[order[:9]])) == [4, 3, 2]
    fit = Fit(rows, targets, aim)
    for i, j in enumerate(order[:9]):
        own = np.setdiff1d(np.flatnonzero(groups == groups[j]), order[:i])
        assert own[int(fit.gains(own).argmax())] == j
        fit.add(int(j))
    gains = fit.gains(order[9:])
    assert (gains.diff() <= 1e-6).all()


def test_of_twins_one_is_kept():
    """What is said already gains nothing more: coverage comes by itself."""
    rows = torch.eye(12)
    rows[6:] = rows[:6]
    order = grow(rows, torch.ones(12, 1), np.zeros(12, int), np.array([6]), FIT, pool=12)
    assert len({int(j) % 6 for j in order[:6]}) == 6


def test_growth_repeats_by_its_seed():
    rows, targets, groups = problem(n=300)
    runs = [grow(rows, targets, groups, np.full(3, 20), FIT, seed=s) for s in (0, 0, 1)]
    assert np.array_equal(runs[0], runs[1]) and not np.array_equal(runs[0], runs[2])


@pytest.mark.parametrize("dual", [True, False])
@pytest.mark.parametrize(("b", "c"), [(1, 1), (1, 3), (3, 1)])
def test_products_are_the_cosine_kernel(dual, b, c):
    phi, r, _ = random_jacobians(40, b, c, 20, 5, seed=0)
    rows = unit_rows(linearization(phi, r, dual=dual), seed=0).double()
    flat = phi.reshape(40, -1).double()
    kernel = flat @ flat.T
    length = kernel.diagonal().sqrt()
    expected = kernel / length / length[:, None]
    torch.testing.assert_close(rows @ rows.T, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dual", [True, False])
def test_leading_directions_are_enough(dual, monkeypatch):
    """60 columns seen as 20: what is left out is small, as the spectrum says."""
    monkeypatch.setattr(module, "MOST_COLUMNS", 20)
    phi, r, _ = random_jacobians(300, 1, 1, 60, 5, seed=0, decay=2.0)
    rows = unit_rows(linearization(phi, r, dual=dual), seed=0).double()
    flat = phi.reshape(300, -1).double()
    flat = flat / flat.norm(dim=1, keepdim=True)
    assert rows.shape == (300, 20)
    assert float((rows @ rows.T - flat @ flat.T).abs().max()) < 0.02


def test_a_sample_without_features_has_a_row_of_zeros():
    phi, r, _ = random_jacobians(10, 1, 1, 5, 5, seed=0)
    phi[3] = 0
    rows = unit_rows(linearization(phi, r, dual=False), seed=0)
    assert np.isfinite(rows.numpy()).all() and float(rows[3].abs().max()) == 0
