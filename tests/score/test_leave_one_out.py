"""leave_one_out against its definition: delete the sample, decompose again, train again."""

import sys
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datassay.collect import form as form_module
from datassay.errors import SettingError
from datassay.score.leave_one_out import leave_one_out
from datassay.score.linear import many_outputs
from datassay.score.linear.training_run import check_dynamics
from helpers.linearizations import (
    brute_force,
    close,
    linearization,
    random_jacobians,
    random_linearization,
)


def assert_matches(lin, oracle, **run):
    ours = leave_one_out(lin, **run)
    assert close(ours.held_out, oracle[0])
    rounding = 1e-13 * max(1.0, float(oracle[0].abs().max()))  # relative to what is subtracted
    for change, known in ((ours.prediction_change, oracle[1]), (ours.weight_change, oracle[2])):
        off = np.abs(np.sqrt(change) - known.sqrt().numpy())
        assert close(change, known) or off.max() < rounding
    assert ours.to_table().column_names == ["id", "prediction_change", "weight_change", "held_out"]


SHAPES = {"binary": (30, 1, 1), "joint": (12, 3, 1), "wide": (8, 10, 1), "averaged": (30, 1, 10)}


KERNELS = [(True, 70), (True, 20), (False, 20)]
SEEDS = {"flow": 1, "descent": 2, "converged": 3}
CASES = [  # kind, ηT or η λ_max, steps, weight decay, dual and features
    *product(["flow"], [1e-3, 2.0, 1e3], [50], [0.0, 0.7], KERNELS),
    *product(["descent"], [0.4, 1.6], [1, 11, 12, 2000], [0.0, 0.7], KERNELS),
    *product(["converged"], [1.0], [1], [0.0, 1e-3, 2.0], product([True, False], [20, 140])),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("kind", "size", "steps", "penalty", "form"), CASES)
def test_each_training_is_its_definition(shape, kind, size, steps, penalty, form):
    (n, b, c), (dual, p) = SHAPES[shape], form
    decay = 0.0 if kind == "converged" else 0.5
    phi, r, val = random_jacobians(n, b, c, p, 9, SEEDS[kind], decay=decay)
    largest = float(torch.linalg.matrix_norm(phi.flatten(0, 1), 2) ** 2) + penalty
    eta = size / (largest if kind == "descent" else steps)
    oracle = brute_force(phi, r, val, kind, eta, steps, penalty)
    lin = linearization(phi, r, val, dual=dual)
    assert_matches(lin, oracle, lr=eta, steps=steps, weight_decay=penalty, dynamics=kind)


@pytest.mark.parametrize("reduction", ["sum", "mean", "mean_same_penalty"])
@pytest.mark.parametrize(
    ("kind", "steps"), [("flow", 40), ("descent", 3), ("descent", 40), ("converged", 40)]
)
@pytest.mark.parametrize("dual", [True, False], ids=["dual", "primal"])
@pytest.mark.parametrize("shape", [(2, 1, 30, 7), (1, 4, 6, 9)], ids=["joint", "more queries"])
def test_of_a_mean_loss_the_others_have_its_step_and_weight_decay(
    kind, steps, dual, reduction, shape
):
    """η = lr/n, λ = n·wd; without a sample lr/(n−1) and (n−1)·wd, or n·wd as in S1's code."""
    phi, r, val = random_jacobians(20, *shape, seed=4, decay=0.5)
    largest = float(torch.linalg.matrix_norm(phi.flatten(0, 1), 2) ** 2)
    n = 1 if reduction == "sum" else 20
    lr, decay = n * 0.3 / largest, 0.2 / n
    oracle = brute_force(phi, r, val, kind, lr / n, steps, n * decay, reduction)
    lin = linearization(phi, r, val, dual=dual)
    run = {"lr": lr, "steps": steps, "weight_decay": decay, "dynamics": kind}
    assert_matches(lin, oracle, reduction=reduction, **run)


@pytest.mark.parametrize(("n", "decay"), [(100, 1e-3), (100, 0.3), (2000, 1e-3), (2000, 0.3)])
def test_of_a_mean_loss_with_weight_decay_the_size_is_that_of_a_ridge_fit_to_the_others(n, decay):
    """(Φᵀ Φ/(n−1) + decay) w = Φᵀ r/(n−1) without sample i, solved anew by numpy."""
    g = np.random.default_rng(n)
    x = np.c_[g.normal(size=(n, 9)), np.ones(n)]
    y = x @ g.normal(size=10) + g.normal(size=n)
    tensors = (torch.from_numpy(t[:, None]) for t in (x, y[:, None], x[:50]))
    run = {"weight_decay": decay, "dynamics": "converged", "reduction": "mean"}
    ours = leave_one_out(linearization(*tensors, dual=False), **run)

    def fitted(keep):
        a, m = x[keep], len(keep)
        return np.linalg.solve(a.T @ a / m + decay * np.eye(10), a.T @ y[keep] / m)

    full, some = fitted(np.arange(n)), g.choice(n, 40, replace=False)
    moved = np.stack([full - fitted(np.delete(np.arange(n), i)) for i in some])
    np.testing.assert_allclose(ours.weight_change[some], (moved**2).sum(1), rtol=1e-6)
    np.testing.assert_allclose(
        ours.prediction_change[some], ((moved @ x[:50].T) ** 2).sum(1), rtol=1e-6
    )


@settings(max_examples=90, deadline=None, derandomize=True)
@given(
    n=st.integers(2, 9),
    b=st.integers(1, 11),
    p=st.integers(1, 40),
    decay=st.floats(0, 1.5),
    tau=st.floats(-3, 3).map(lambda e: 10.0**e),
    descent=st.tuples(st.floats(0.05, 1.95), st.integers(1, 300)),
    penalty=st.sampled_from([0.0, 0.1]),
    kind=st.sampled_from(["flow", "converged", "descent"]),
    duplicate=st.booleans(),
    dual=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_random_sizes_and_spectra(
    n, b, p, decay, tau, descent, penalty, kind, duplicate, dual, seed
):
    """Rank-deficient kernels (p < n·b), duplicated samples, n = 2, k > n, any stable step."""
    phi, r, val = random_jacobians(n, b, 1, p, 5, seed, decay)
    if duplicate:
        phi[-1], r[-1] = phi[0], r[0]
    lr, steps = tau, 1
    if kind == "descent":
        fraction, steps = descent
        lr = fraction / float(torch.linalg.matrix_norm(phi.flatten(0, 1), 2) ** 2 + penalty)
    oracle = brute_force(phi, r, val, kind, lr, steps, penalty)
    lin = linearization(phi, r, val, dual=dual)
    assert_matches(lin, oracle, lr=lr, steps=steps, weight_decay=penalty, dynamics=kind)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(u=st.floats(0.1, 10), t=st.floats(0.1, 10), seed=st.integers(0, 10**6))
def test_units(u, t, seed):
    """Features × u, targets × t, step / u²: outputs × t, weights × t/u."""
    phi, r, val = random_jacobians(9, 2, 1, 15, 4, seed)
    scaled = linearization(u * phi, t * r, u * val, dual=True)
    before = leave_one_out(linearization(phi, r, val, dual=True), lr=0.01, steps=30)
    after = leave_one_out(scaled, lr=0.01 / u**2, steps=30)
    np.testing.assert_allclose(after.held_out, t * before.held_out, rtol=1e-8, atol=1e-11 * t)
    np.testing.assert_allclose(after.prediction_change, t**2 * before.prediction_change, rtol=1e-8)
    np.testing.assert_allclose(after.weight_change, (t / u) ** 2 * before.weight_change, rtol=1e-8)


@pytest.mark.parametrize("dual", [True, False], ids=["dual", "primal"])
def test_a_direction_that_others_barely_span_is_not_taken_for_the_samples_own(dual):
    """Converged: the first sample's leverage is 1 − 1e-4, the second one's fit rests on it."""
    phi, r, val = random_jacobians(6, 1, 1, 8, 4, seed=3)
    phi[:, :, 7] = 0.0
    phi[0], phi[1] = 0.0, 0.0
    phi[0, 0, 7], phi[1, 0, 7] = 100.0, 1.0
    lin = linearization(phi, r, val, dual=dual)
    assert_matches(lin, brute_force(phi, r, val, "converged", 1.0, 1, 0.0), dynamics="converged")


def test_without_validation_the_training_inputs_serve_and_chunks_change_nothing(monkeypatch):
    phi, r, _ = random_jacobians(12, 2, 1, 30, 3, seed=6)
    oracle = brute_force(phi, r, phi, "flow", 0.01, 10, 0.0)
    for dual, values in product([True, False], [form_module.REMOVAL_VALUES, 300]):
        monkeypatch.setattr(form_module, "REMOVAL_VALUES", values)
        monkeypatch.setattr(form_module, "FEWEST_REMOVED", 1)
        ours, again = (
            leave_one_out(linearization(phi, r, dual=dual), lr=0.01, steps=10) for _ in range(2)
        )
        assert ours.on_training_inputs and ours.n_queries == 12
        assert close(ours.prediction_change, oracle[1])
        assert np.array_equal(ours.prediction_change, again.prediction_change)


def test_descent_of_a_mean_loss_must_be_stable_without_a_sample_too():
    """η λ_max is 1.8 on all four samples, and 2.4 on three of them, whose step is larger."""
    phi, r, val = random_jacobians(4, 1, 1, 8, 3, seed=7)
    lin = linearization(phi, r, val, dual=True)
    limit = 3 * 2 / float(torch.linalg.eigvalsh(lin.kernel)[-1])
    run = {"steps": 30, "dynamics": "descent", "reduction": "mean"}
    with pytest.raises(SettingError, match=rf"lr must be below {limit:.4g} .*η·λ_max = 2.4"):
        leave_one_out(lin, lr=1.2 * limit, **run)
    assert np.isfinite(leave_one_out(lin, lr=0.99 * limit, **run).held_out).all()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"lr": 1e9, "dynamics": "descent"}, r"lr must be below .*\(η·λ_max < 2\)"),
        ({"lr": -1.0}, "lr must be finite and positive"),
        ({"lr": float("nan")}, "lr must be finite and positive"),
        ({"steps": 0}, "steps must be a whole number of at least 1; got 0"),
        ({"lr": "fast"}, "lr must be finite and positive, or 'auto'; got fast"),
        ({"weight_decay": -0.1}, "weight_decay must be finite and at least 0"),
        ({"reduction": "median"}, "reduction must be one of sum, mean, mean_same_penalty"),
        ({"dynamics": "sgd"}, "dynamics must be 'flow', 'descent' or 'converged'"),
    ],
)
def test_bad_settings(setting, message):
    with pytest.raises(SettingError, match=message):
        leave_one_out(random_linearization(5, 1, 1, 8, 3, seed=7), **setting)


@pytest.mark.parametrize("steps", [2.5, float("nan"), float("inf")])
def test_steps_are_whole(steps):
    """Where types are not checked, 2.5 would train for 2 steps in silence."""
    run = {"lr": "auto", "weight_decay": 0.0, "reduction": "sum", "kind": "flow"}
    with pytest.raises(SettingError, match=f"steps must be a whole number .*; got {steps}"):
        check_dynamics(1.0, 5, steps=steps, **run)
    assert check_dynamics(1.0, 5, steps=1e3, **run).steps == 1000


@pytest.mark.parametrize("dual", [True, False], ids=["dual", "primal"])
@pytest.mark.parametrize("dynamics", ["flow", "descent", "converged"])
def test_of_many_outputs_changes_are_summed_over_mixtures(dual, dynamics, monkeypatch):
    """Outputs stay exact; sums over them are those of a run on the mixed residuals."""
    run = {"lr": 0.02, "steps": 40, "weight_decay": 0.3, "dynamics": dynamics}
    phi, r, val = random_jacobians(20, 1, 12, 30, 9, 4)
    exact = leave_one_out(linearization(phi, r, val, dual=dual), **run)
    mixing = many_outputs.mixing(12, 5)
    torch.testing.assert_close(mixing.square().sum(1), torch.ones(12).double())
    monkeypatch.setattr(many_outputs, "MOST_COLUMNS", 5)
    monkeypatch.setattr(sys.modules[leave_one_out.__module__], "mix_columns", lambda r: r @ mixing)
    ours = leave_one_out(linearization(phi, r, val, dual=dual), **run)
    assert close(ours.held_out, exact.held_out) and close(ours.outputs, exact.outputs)
    expected = leave_one_out(linearization(phi, r @ mixing, val, dual=dual), **run)
    assert close(ours.prediction_change, expected.prediction_change)
    assert close(ours.weight_change, expected.weight_change)
