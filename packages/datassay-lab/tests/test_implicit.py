"""Implicit regularisation: minimum norm, low rank, early stopping, finite steps."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import lstsq
from scipy.optimize import minimize_scalar

from datassay_lab.implicit.early_stopping import RISK_BOUND, early_stopping
from datassay_lab.implicit.finite_steps import finite_steps
from datassay_lab.implicit.matrix_completion import matrix_completion
from datassay_lab.implicit.minimum_norm import minimum_norm


def test_descent_from_zero_is_the_least_norm(small):
    result = small("minimum-norm")
    assert result.residual < 1e-9
    # Norms of LAPACK's own least-norm solution and of the start's null-space part.
    rng = np.random.default_rng(2)
    a = rng.normal(size=(5, 12)) / np.sqrt(12)
    least = np.linalg.norm(lstsq(a, rng.normal(size=5))[0])  # draws as the experiment does
    direction = rng.normal(size=12)
    unseen = direction - lstsq(a, a @ direction)[0]
    share = np.linalg.norm(unseen) / np.linalg.norm(direction)
    assert result.norms[0, -1] == pytest.approx(1, rel=1e-9)
    assert result.norms[3, -1] == pytest.approx(np.hypot(1, 2 * share), rel=1e-9)
    assert result.norms[3, 0] == pytest.approx(2)
    assert least > 0
    adam = minimum_norm(n_equations=5, n_unknowns=12, method="adam", seed=2)
    assert not adam.agreement.holds
    assert adam.residual < 0.05  # it fits, elsewhere


def test_factors_and_nuclear_norm_meet(small):
    result = small("matrix-completion")
    assert result.unknowns == 19
    assert result.error[1, 0] < 0.1 * result.nuclear_error[0]  # three factors need fewer entries
    assert result.spectrum[-1, 1:].max() < 1e-12
    assert result.nuclear_error[-1] < 1e-3


def test_a_large_start_parts_them():
    few = {"size": 10, "rank": 1, "observed": (35, 45), "matrices": 2, "deepest": 2, "seed": 1}
    near, far = (matrix_completion(**few, steps=3000, **start) for start in ({}, {"start": 1.0}))
    assert not far.agreement.holds
    assert far.error[0, -1] > 1.5 * near.error[0, -1]


def test_nuclear_norm_of_a_known_case():
    import cvxpy

    from datassay_lab.implicit.matrix_completion import _least_nuclear_norm

    # [[1, 1], [1, x]]: the least nuclear norm is at x = 1, where the rank is 1.
    target = np.array([[1.0, 1.0], [1.0, 7.0]])
    seen = np.array([[1.0, 1.0], [1.0, 0.0]])
    assert _least_nuclear_norm(cvxpy, target, seen)[1, 1] == pytest.approx(1, abs=1e-3)


def test_stopping_early_is_weight_decay(small):
    result = small("early-stopping")
    assert result.slope == pytest.approx(-1, abs=0.15)
    assert np.all(result.stopped_risk <= RISK_BOUND * result.ridge_risk)
    assert result.best_alphas[0] * result.times[0] == pytest.approx(1, abs=0.25)  # τελ ≪ 1


def test_stopping_early_finds_the_nearest_decay():
    steps, rng = (10, 20, 40), np.random.default_rng(4)
    result = early_stopping(n_features=6, n_samples=50, steps=steps, step_size=0.2, seed=4)
    x = rng.normal(size=(50, 6)) / np.arange(1, 7)
    y = x @ rng.normal(size=6) + rng.normal(size=50)
    hessian, moment = x.T @ x / 50, x.T @ y / 50
    rate, weights = 0.2 / np.linalg.norm(hessian, 2), np.zeros(6)
    for _ in range(20):
        weights = weights - rate * (hessian @ weights - moment)

    def distance(log_alpha):
        decayed = np.linalg.solve(hessian + np.exp(log_alpha) * np.eye(6), moment)
        return np.linalg.norm(decayed - weights)

    best = np.exp(minimize_scalar(distance, bounds=(-6, 4), method="bounded").x)
    assert result.best_alphas[1] == pytest.approx(best, rel=0.03)
    powers = np.linalg.matrix_power(np.eye(6) - rate * hessian, 20)
    assert result.parameters[1] == pytest.approx(6 - np.trace(powers))
    assert result.slowed_times[0] == pytest.approx(rate * sum(t**-0.5 for t in range(1, 11)))


def test_descent_follows_the_modified_flow(small):
    result = small("finite-steps")
    assert np.all(result.from_modified < result.from_flow / 4)
    assert np.all(np.diff(result.from_flow) < 0)
    assert np.all(result.epoch[2] < result.epoch[1]) and result.epoch_exponents[2] > 2.9
    half = finite_steps(width=3, steps=(80, 160, 320), duration=2.0, factor=0.5, seed=1)
    assert half.epoch_exponents[2] == pytest.approx(2, abs=0.3)
    assert half.modified_exponent == pytest.approx(1, abs=0.3)  # only a quarter gives 2


def test_gradient_and_curvature_of_the_network_are_those_of_torch():
    import torch

    from datassay_lab.implicit.finite_steps import _flow, _gradient

    rng = np.random.default_rng(0)
    x, y, first = rng.normal(size=7), rng.normal(size=7), rng.normal(size=9)
    rows = torch.from_numpy(x)[:, None]

    def loss(w):
        a, b, v = w.reshape(3, 3)
        return 0.5 * ((torch.tanh(rows * a + b) @ v - torch.from_numpy(y)) ** 2).mean()

    weights = torch.from_numpy(first)
    assert _gradient(x, y)(first) == pytest.approx(torch.func.grad(loss)(weights).numpy())

    def modified(w):
        return loss(w) + 0.1 * torch.func.grad(loss)(w).square().sum()

    def speed(_, w):
        return -torch.func.grad(modified)(torch.from_numpy(w)).numpy()

    oracle = solve_ivp(speed, (0, 0.5), first, rtol=1e-10, atol=1e-10).y[:, -1]
    assert _flow([_gradient(x, y)], first, 0.1, 0.25, 2)[-1] == pytest.approx(oracle, abs=1e-8)
