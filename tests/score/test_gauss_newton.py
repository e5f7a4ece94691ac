"""Gauss-Newton leave-one-out against its definition, and against exact ridge regression."""

import numpy as np
import pytest
import torch

from datassay.errors import SettingError
from datassay.score.influence.whole.gauss_newton import gauss_newton
from helpers.linearizations import linearization, random_jacobians, random_linearization


def problem(n=9, k=3, p=14, m=5, seed=0, dual=False):
    """A joint linearisation at weights whose outputs are far from its targets."""
    phi, outputs, val = random_jacobians(n, k, 1, p, m, seed)
    labels = torch.arange(n) % max(k, 2)
    targets = torch.eye(k).double()[labels] if k > 1 else labels[:, None].double()
    residual = (targets - outputs[..., 0])[..., None]
    lin = linearization(
        phi, residual, val, dual=dual, labels=labels.numpy(), outputs=outputs[..., 0]
    )
    return lin, phi, val, outputs[..., 0], targets


def by_definition(phi, val, outputs, targets, loss, damping):
    """(H − J_iᵀ S_i J_i)⁻¹ J_iᵀ R_i: the Newton step on the curvature of the other samples."""
    n, k, p = phi.shape

    def value(f, y):
        if loss == "mse":
            return 0.5 * (f - y).square().sum()
        if k == 1:
            return torch.nn.functional.binary_cross_entropy_with_logits(f, y)
        return -(y * f.log_softmax(0)).sum()

    slope = torch.func.grad(value)
    each = [
        (j, slope(f, y), torch.func.jacrev(slope)(f, y))
        for j, f, y in zip(phi, outputs, targets, strict=True)
    ]
    whole = sum(j.T @ s @ j for j, _, s in each) + damping * n * torch.eye(p).double()
    steps = torch.stack([torch.linalg.solve(whole - j.T @ s @ j, j.T @ r) for j, r, s in each])
    return -torch.einsum("mkp,np->nmk", val, steps), steps.square().sum(1).numpy()  # w₋ᵢ − w


@pytest.mark.parametrize("loss", ["cross_entropy", "mse"])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize(("dual", "p"), [(False, 14), (True, 60), (False, 60)])
def test_against_the_definition(loss, k, dual, p):
    lin, phi, val, outputs, targets = problem(k=k, p=p, dual=dual)
    oracle, moved = by_definition(phi, val, outputs, targets, loss, 0.05)
    parts = list(gauss_newton(lin, loss, 0.05))
    ours = torch.cat([part.outputs for part in parts])
    torch.testing.assert_close(ours, oracle, rtol=1e-7, atol=1e-9)
    weights = torch.cat([part.weights for part in parts])
    np.testing.assert_allclose(weights, moved, rtol=1e-7)


def test_squared_error_at_the_minimum_is_the_exact_ridge_leave_one_out():
    phi, y, val = random_jacobians(12, 1, 1, 5, 4, seed=1)
    x, target, queries = phi[:, 0], y[:, 0, 0], val[:, 0]
    ridge = 0.3

    def fit(rows):
        gram = x[rows].T @ x[rows] + ridge * torch.eye(5).double()
        return torch.linalg.solve(gram, x[rows].T @ target[rows])

    everything = torch.arange(12)
    w = fit(everything)
    # Weights w of a linear model started from 0: damping 0.3/12 of the mean loss is its ridge.
    lin = linearization(
        phi, (target - x @ w)[:, None, None], val, dual=False, outputs=(x @ w)[:, None]
    )
    (part,) = gauss_newton(lin, "mse", ridge / 12)
    for i in range(12):
        without = fit(everything[everything != i])
        torch.testing.assert_close(part.outputs[i, :, 0], queries @ (w - without))
        assert part.weights[i] == pytest.approx(float((w - without).square().sum()))


@pytest.mark.parametrize(("n", "decay"), [(100, 1e-3), (100, 0.3), (2000, 0.3)])
def test_weight_decay_of_a_mean_loss_is_that_of_the_n_minus_1_others(n, decay):
    """numpy's ridge fit to the others, (n − 1)·decay, and its changes on five queries."""
    g = np.random.default_rng(n)
    x, queries = g.normal(size=(n, 6)), g.normal(size=(5, 6))
    y = x @ g.normal(size=6) + g.normal(size=n)

    def fitted(keep):
        a = x[keep]
        return np.linalg.solve(a.T @ a + len(keep) * decay * np.eye(6), a.T @ y[keep])

    full = fitted(np.arange(n))
    phi, residual, val = (
        torch.from_numpy(t)[:, None] for t in (x, (y - x @ full)[:, None], queries)
    )
    lin = linearization(phi, residual, val, dual=False, outputs=torch.from_numpy(x @ full)[:, None])
    parts = list(gauss_newton(lin, "mse", decay, decay=decay))
    ours = torch.cat([part.outputs for part in parts])[:30, :, 0].numpy()
    moved = np.stack([full - fitted(np.delete(np.arange(n), i)) for i in range(30)])
    np.testing.assert_allclose(ours, moved @ queries.T, rtol=1e-6, atol=1e-9)


def test_units():
    """Features × u with damping × u² leave the output changes as they are."""
    phi, residual, val = random_jacobians(8, 2, 1, 10, 3, seed=3)
    before = linearization(phi, residual, val, dual=False)
    after = linearization(7 * phi, residual, 7 * val, dual=False)
    (a,), (b,) = gauss_newton(before, "mse", 0.1), gauss_newton(after, "mse", 4.9)
    torch.testing.assert_close(a.outputs, b.outputs)
    torch.testing.assert_close(a.weights, 49 * b.weights)


def test_bad_settings():
    lin, *_ = problem()
    averaged = random_linearization(6, 1, 3, 8, 2, seed=0)
    for given, message in (
        ((lin, "mse", 0.0), r"damping must be positive; got 0\.0"),
        ((lin, "hinge", 0.1), "loss must be 'cross_entropy' or 'mse'; got 'hinge'"),
        ((averaged, "mse", 0.1), "Collect with outputs='joint'"),
    ):
        with pytest.raises(SettingError, match=message):
            next(gauss_newton(*given))
