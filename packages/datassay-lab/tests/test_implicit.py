"""Implicit regularisation: minimum norm, low rank, early stopping, finite steps."""

import dataclasses

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import lstsq
from scipy.optimize import minimize_scalar

from datassay.errors import SettingError
from datassay_lab.catalog import experiment
from datassay_lab.implicit.early_stopping import RISK_BOUND, early_stopping
from datassay_lab.implicit.finite_steps import finite_steps
from datassay_lab.implicit.matrix_completion import matrix_completion
from datassay_lab.implicit.minimum_norm import minimum_norm

# Fewer entries than the nuclear norm needs, and nearly all.
FEW = {"size": 10, "rank": 1, "observed": (45, 96), "matrices": 2, "steps": 3000, "deepest": 3}


def test_descent_from_zero_is_the_least_norm():
    result = minimum_norm(n_equations=5, n_unknowns=12, seed=2)
    assert result.agreement.holds
    assert result.residual < 1e-9
    # Norms of LAPACK's own least-norm solution and of the start's null-space part.
    rng = np.random.default_rng(2)
    a = rng.normal(size=(5, 12)) / np.sqrt(12)
    least = np.linalg.norm(lstsq(a, rng.normal(size=5))[0])
    direction = rng.normal(size=12)
    unseen = direction - lstsq(a, a @ direction)[0]
    share = np.linalg.norm(unseen) / np.linalg.norm(direction)
    assert result.norms[0, -1] == pytest.approx(1, rel=1e-9)
    assert result.norms[3, -1] == pytest.approx(np.hypot(1, 2 * share), rel=1e-9)
    assert result.norms[3, 0] == pytest.approx(2)
    assert least > 0


def test_the_least_norm_needs_descent_and_time():
    adam = minimum_norm(n_equations=5, n_unknowns=12, method="adam", seed=2)
    assert not adam.agreement.holds
    assert adam.residual < 0.05  # it fits, elsewhere
    assert not minimum_norm(n_equations=5, n_unknowns=12, steps=5, seed=2).agreement.holds


def test_factors_and_nuclear_norm_meet():
    result = matrix_completion(**FEW, seed=1)
    assert result.agreement.holds
    assert result.unknowns == 19
    assert result.error[1, 0] < 0.1 * result.nuclear_error[0]  # three factors need fewer entries
    assert result.spectrum[-1, 1:].max() < 1e-12
    assert result.nuclear_error[-1] < 1e-3


def test_too_few_entries_or_a_large_start_part_them():
    few = FEW | {"observed": (35, 45), "deepest": 2}
    small = matrix_completion(**few, seed=1)
    large = matrix_completion(**few | {"start": 1.0}, seed=1)
    assert not small.agreement.holds  # the conjecture does not hold here
    assert not large.agreement.holds
    assert large.error[0, -1] > 1.5 * small.error[0, -1]


def test_nuclear_norm_of_a_known_case():
    import cvxpy

    from datassay_lab.implicit.matrix_completion import _least_nuclear_norm

    # [[1, 1], [1, x]]: the least nuclear norm is at x = 1, where the rank is 1.
    target = np.array([[1.0, 1.0], [1.0, 7.0]])
    seen = np.array([[1.0, 1.0], [1.0, 0.0]])
    assert _least_nuclear_norm(cvxpy, target, seen)[1, 1] == pytest.approx(1, abs=1e-3)


def test_stopping_early_is_weight_decay():
    result = early_stopping(n_features=15, n_samples=100, steps=(1, 3, 10, 30, 100), seed=1)
    assert result.agreement.holds
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


def test_early_stopping_breaks_once_all_is_learned():
    long = early_stopping(n_features=5, n_samples=100, steps=(10, 100, 1000, 10_000))
    assert not long.agreement.holds


def test_descent_follows_the_modified_flow():
    result = finite_steps(width=3, steps=(40, 80, 160), duration=2.0, seed=1)
    assert result.agreement.holds
    assert np.all(result.from_modified < result.from_flow / 4)
    assert np.all(np.diff(result.from_flow) < 0)


@pytest.mark.parametrize("factor", [0.2, 0.5, -0.25])
def test_only_a_quarter_gives_the_second_order(factor):
    result = finite_steps(width=3, steps=(80, 160, 320), duration=2.0, factor=factor, seed=1)
    assert not result.agreement.holds
    assert result.modified_exponent == pytest.approx(1, abs=0.3)


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
    assert _flow(_gradient(x, y), first, 0.1, 0.25, 2)[-1] == pytest.approx(oracle, abs=1e-8)


@pytest.mark.parametrize(
    ("run", "wrong", "said"),
    [
        (minimum_norm, {"n_unknowns": 20}, "n_unknowns must be a whole number >= 21"),
        (minimum_norm, {"method": "newton"}, "method must be one of descent, adam"),
        (minimum_norm, {"starts": (-1.0,)}, "starts must be 1 or more increasing numbers >= 0"),
        (matrix_completion, {"rank": 20}, "rank must be < size"),
        (matrix_completion, {"observed": (10, 500)}, "observed at most size²"),
        (matrix_completion, {"deepest": 1}, "deepest must be a whole number >= 2"),
        (early_stopping, {"step_size": 2.0}, "step_size must be a number > 0 and < 2"),
        (early_stopping, {"steps": (1, 2)}, "steps must be 3 or more increasing"),
        (early_stopping, {"noise": 0}, "noise must be a number > 0"),
        (finite_steps, {"steps": (40, 20, 10)}, "steps must be 3 or more increasing"),
        (finite_steps, {"duration": -1.0}, "duration must be a number > 0"),
        (finite_steps, {"duration": 1e6, "steps": (20, 40, 80)}, "steps must make descent stable"),
    ],
)
def test_refuses(run, wrong, said):
    with pytest.raises(SettingError, match=said):
        run(**wrong)


SMALL = [
    ("minimum-norm", {"n_equations": 3, "n_unknowns": 6, "steps": 50}),
    ("matrix-completion", FEW | {"steps": 100}),
    ("early-stopping", {"n_features": 4, "n_samples": 20, "steps": (1, 2, 4)}),
    ("finite-steps", {"width": 2, "steps": (10, 20, 40), "duration": 1.0}),
]


@pytest.mark.parametrize(("name", "small"), SMALL)
def test_figures_and_seeds(name, small):
    one, two = experiment(name).run(seed=4, **small), experiment(name).run(seed=4, **small)
    for field in dataclasses.fields(one):
        assert np.array_equal(getattr(one, field.name), getattr(two, field.name))
    plots = experiment(name).plots(one)
    assert any(getattr(t.line, "dash", None) == "dash" for p in plots for t in p.figure.data)
    assert all(p.title and p.text for p in plots)
