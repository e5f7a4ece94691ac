"""Fisher and SGD steady-state smoothing against weight-space brute force and simulated SGD."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datassay.errors import SettingError
from datassay.score.information.gaussian_kl import kl_information
from datassay.score.information.weights import (
    gaussian_noise,
    gradient_covariance,
    steady_state_covariance,
)
from datassay.score.leave_one_out import leave_one_out
from datassay.score.sample_information import sample_information
from helpers.linearizations import linearization, random_jacobians, random_linearization, trainings
from helpers.smoothing import RUN, lyapunov

SHAPES = {"binary": (30, 1, 1), "joint": (14, 3, 1), "averaged": (30, 1, 4)}
FORMS = {"dual": (True, 70), "singular dual": (True, 12), "primal": (False, 12)}


def changes(phi, r, kind, run):
    """w and w − w₋ᵢ in weight space, [n, d, c], by training again without each sample."""
    full, without = trainings(phi, r, kind, *run.values())
    return full, full - without


@pytest.mark.parametrize("dual, p", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["flow", "descent", "converged"])
def test_fisher_is_the_definition_and_equals_functional(kind, shape, dual, p):
    """S1 §5: Σ⁻¹ = F makes the weights' information that of the predictions, to 1e-8."""
    phi, r, val = random_jacobians(*SHAPES[shape], p, 9, seed=3, decay=0.5)
    _, delta = changes(phi, r, kind, RUN)
    for queries in (val, None):
        lin, inputs = linearization(phi, r, queries, dual=dual), phi if queries is None else val
        run = {**RUN, "dynamics": kind, "sigma": 0.5}
        fisher = sample_information(lin, smoothing="fisher", **run).information
        np.testing.assert_allclose(fisher, sample_information(lin, **run).information, rtol=1e-8)
        moments = inputs.flatten(0, 1).T @ inputs.flatten(0, 1) / len(inputs)
        oracle = 0.5 * torch.einsum("npc,pq,nqc->n", delta, moments, delta) / 0.25
        np.testing.assert_allclose(fisher, oracle, rtol=1e-8)


@pytest.mark.parametrize("dual, p", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("shape", ["binary", "averaged"])
@pytest.mark.parametrize("kind", ["flow", "converged"])
def test_sgd_is_the_lyapunov_solution_of_weight_space(kind, shape, dual, p):
    phi, r, val = random_jacobians(*SHAPES[shape], p, 9, seed=5)
    lin = linearization(phi, r, val, dual=dual)
    information = sample_information(lin, smoothing="sgd", batch_size=4, dynamics=kind, **RUN)
    trained, delta = changes(phi, r, kind, RUN)
    oracle = np.zeros(len(r))
    for c in range(r.shape[2]):
        inverse = np.linalg.pinv(lyapunov(phi, r, trained, c, RUN, 4), rcond=1e-10, hermitian=True)
        oracle += 0.5 * np.einsum("np,pq,nq->n", delta[..., c], inverse, delta[..., c])
    np.testing.assert_allclose(information.information, oracle, rtol=1e-7)
    state = information.steady_state
    assert state.outside.max() < 1e-8
    assert state.rank == state.n_directions == min(30, p) * r.shape[2]


def test_sgd_of_joint_outputs():
    phi, r, val = random_jacobians(40, 3, 1, 12, 5, seed=6)
    trained, delta = changes(phi, r, "converged", RUN)
    inverse = np.linalg.inv(lyapunov(phi, r, trained, 0, RUN, 8))
    oracle = 0.5 * np.einsum("np,pq,nq->n", delta[..., 0], inverse, delta[..., 0])
    run = {"smoothing": "sgd", "batch_size": 8, "dynamics": "converged"}
    # lr of the mean loss is n η, weight decay λ / n: the full run, and so Σ, is the same.
    mean = {"lr": 40 * RUN["lr"], "weight_decay": RUN["weight_decay"] / 40}
    mean["reduction"] = "mean_same_penalty"
    for dual in (True, False):
        information = sample_information(linearization(phi, r, val, dual=dual), **RUN, **run)
        np.testing.assert_allclose(information.information, oracle, rtol=1e-8)
        of_mean = sample_information(linearization(phi, r, val, dual=dual), **mean, **run)
        np.testing.assert_allclose(of_mean.information, oracle, rtol=1e-8)


def test_what_the_noise_does_not_reach_is_reported():
    """Output 1 has its own weight, and all samples ask the same of it: no noise there."""
    phi, r, val = random_jacobians(20, 2, 1, 5, 6, seed=7)
    phi[:, 0, 4], phi[:, 1, :4] = 0, 0
    phi[:, 1, 4], r[:, 1] = 1.0, 3.0
    lin = linearization(phi, r, val, dual=False)
    information = sample_information(lin, smoothing="sgd", batch_size=4, **RUN)
    state = information.steady_state
    trained, delta = changes(phi, r, "flow", RUN)
    values, axes = np.linalg.eigh(lyapunov(phi, r, trained, 0, RUN, 4))
    null = axes[:, values <= 1e-10 * values[-1]]
    share = ((delta[..., 0].numpy() @ null) ** 2).sum(1) / (delta[..., 0].numpy() ** 2).sum(1)
    np.testing.assert_allclose(state.outside, share, atol=1e-8)
    assert state.rank == 5 - null.shape[1] == 4 and state.outside.max() > 1e-3
    assert information.to_table().column_names == ["id", "information", "outside"]


def test_langevin_noise_gives_cooks_distance():
    """S1 eq. 15 in the sum convention: Λ = s²I gives (b/(n² η s²)) Δᵀ H Δ."""
    phi, r, _ = random_jacobians(15, 1, 1, 6, 3, seed=8)
    _, delta = changes(phi, r, "converged", RUN)
    flat, change = phi.flatten(0, 1), delta[..., 0]
    hessian = flat.T @ flat + 0.5 * torch.eye(6)
    h, basis = torch.linalg.eigh(hessian)
    n, b, eta, s = 15, 4, 1e-3, 0.7
    covariance = steady_state_covariance(s**2 * torch.eye(6).double(), h, n**2 * eta / b)
    information = gaussian_noise(covariance).information((change @ basis).T)
    cook = b / (n**2 * eta * s**2) * (change * (change @ hessian)).sum(1)
    np.testing.assert_allclose(information, cook, rtol=1e-8)
    with pytest.raises(SettingError, match="covariance must not be 0"):
        gaussian_noise(torch.zeros(3, 3, dtype=torch.float64))


def test_simulated_sgd_has_the_factor_n_squared():
    """Batches with replacement, steps of η times n times the batch's mean gradient (sum loss)."""
    n, batch, runs, steps, eta = 40, 5, 600, 2500, 2e-4
    g = torch.Generator().manual_seed(1)
    phi = torch.randn(n, 3, generator=g, dtype=torch.float64)
    y = torch.randn(n, generator=g, dtype=torch.float64)
    minimum = torch.linalg.lstsq(phi, y[:, None]).solution[:, 0]
    w = minimum.expand(runs, 3).clone()
    total, count = torch.zeros(3, 3, dtype=torch.float64), 0
    for step in range(steps):
        drawn = torch.randint(n, (runs, batch), generator=g)
        x = phi[drawn]
        error = torch.einsum("rbp,rp->rb", x, w) - y[drawn]
        w = w - eta * n * torch.einsum("rbp,rb->rp", x, error) / batch
        if step >= 500 and step % 25 == 0:
            total += torch.einsum("rp,rq->pq", w - minimum, w - minimum) / runs
            count += 1
    h, basis = torch.linalg.eigh(phi.T @ phi)
    noise = gradient_covariance(basis.T @ (phi * (phi @ minimum - y)[:, None]).T)
    unit = basis @ steady_state_covariance(noise, h, eta / batch) @ basis.T
    ratio = float((total / count).trace() / unit.trace())
    assert ratio == pytest.approx(n**2, rel=0.05)


def test_interpolation_is_refused():
    lin = random_linearization(10, 1, 1, 30, 4, seed=9)
    run = {"smoothing": "sgd", "batch_size": 2, "dynamics": "converged"}
    with pytest.raises(SettingError, match=r"every sample is fitted exactly, .* got Λ = 0"):
        sample_information(lin, **run)
    assert np.isfinite(sample_information(lin, weight_decay=1.0, **run).information).all()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dual", [True, False])
def test_equal_samples_are_refused(dual, seed):
    """All gradients are one, before and after training: Λ is rounding both times."""
    phi, r, _ = random_jacobians(1, 2, 1, 8, 4, seed=seed)
    lin = linearization(phi.expand(6, 2, 8), r.expand(6, 2, 1), dual=dual)
    with pytest.raises(SettingError, match="or all are the same; got Λ = 0"):
        sample_information(lin, smoothing="sgd", batch_size=2)
    with pytest.raises(SettingError, match="noise must reach every direction"):
        kl_information(lin, batch_size=2)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    t=st.floats(0.1, 10),
    batch=st.integers(1, 64),
    smoothing=st.sampled_from(["fisher", "sgd"]),
    seed=st.integers(0, 10**6),
)
def test_units_and_order(t, batch, smoothing, seed):
    """sgd: targets × t leave it, proportional to b / η. fisher: × t². Order never matters."""
    phi, r, val = random_jacobians(12, 1, 1, 6, 4, seed)
    sgd = smoothing == "sgd"
    run = {"smoothing": smoothing, "dynamics": "converged", "weight_decay": 0.5, "lr": 1e-3}
    run |= {"batch_size": 1} if sgd else {}
    a = sample_information(linearization(phi, r, val, dual=False), **run).information
    other = run | ({"batch_size": batch, "lr": 2e-3} if sgd else {})
    b = sample_information(linearization(phi, t * r, val, dual=False), **other).information
    np.testing.assert_allclose(b, a * (batch / 2 if sgd else t**2), rtol=1e-6)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(seed))
    c = sample_information(linearization(phi[order], r[order], val, dual=False), **run)
    np.testing.assert_allclose(c.information, a[order], rtol=1e-6)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_reading_off_leave_one_out_gives_the_same(reduction):
    lin = random_linearization(20, 2, 1, 60, 4, seed=2)
    run = {**RUN, "reduction": reduction, "weight_decay": 0.1}
    loo = leave_one_out(lin, **run)
    for extra in ({}, {"smoothing": "fisher"}, {"smoothing": "sgd", "batch_size": 3}):
        a, b = sample_information(lin, loo=loo, **extra), sample_information(lin, **extra, **run)
        assert np.array_equal(a.information, b.information)


@pytest.mark.parametrize("dual, p", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("shape", ["binary", "averaged"])
def test_langevin_smoothing_is_eq_15(shape, dual, p):
    phi, r, val = random_jacobians(*SHAPES[shape], p, 9, seed=11)
    run = {**RUN, "dynamics": "converged", "smoothing": "langevin", "batch_size": 4, "sigma": 0.7}
    information = sample_information(linearization(phi, r, val, dual=dual), **run)
    _, delta = changes(phi, r, "converged", RUN)
    flat, (n, step) = phi.flatten(0, 1), (len(r), RUN["lr"])
    hessian = flat.T @ flat + RUN["weight_decay"] * torch.eye(p)
    form = torch.einsum("npc,pq,nqc->n", delta, hessian, delta)
    oracle = 4 / (n**2 * step * 0.7**2) * form
    np.testing.assert_allclose(information.information, oracle, rtol=1e-8)


@pytest.mark.parametrize("queries", ["validation", "training"])
@pytest.mark.parametrize("dual", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_outputs_under_the_noise_of_sgd(shape, dual, queries):
    """S1 eq. 7 where the outputs' own noise is J Σ Jᵀ, one inverse per input by brute force."""
    n, b, c = SHAPES[shape]
    phi, r, val = random_jacobians(40 if b > 1 else n, b, c, 12, 9, seed=12)
    val = val if queries == "validation" else None
    run = {**RUN, "dynamics": "converged", "smoothing": "sgd_outputs", "batch_size": 4}
    information = sample_information(linearization(phi, r, val, dual=dual), **run).information
    trained, delta = changes(phi, r, "converged", RUN)
    inputs, oracle = phi if val is None else val, np.zeros(len(r))
    for column in range(c):
        sigma = torch.from_numpy(lyapunov(phi, r, trained, column, RUN, 4))
        for x in inputs:
            moved = delta[..., column] @ x.T  # [n, b]
            inverse = torch.linalg.inv(x @ sigma @ x.T)
            oracle += torch.einsum("nb,bc,nc->n", moved, inverse, moved).numpy() / 2 / len(inputs)
    np.testing.assert_allclose(information, oracle, rtol=1e-7)


@pytest.mark.parametrize("n, p", [(30, 12), (10, 12)], ids=["primal", "dual"])
@pytest.mark.parametrize("c", [1, 3])
def test_a_covariance_of_the_users_own(n, p, c):
    phi, r, val = random_jacobians(n, 1, c, p, 9, seed=13)
    lin, run = linearization(phi, r, val, dual=False), {**RUN, "dynamics": "flow"}
    _, delta = changes(phi, r, "flow", RUN)
    half = torch.randn(p, p, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    sigma = half @ half.T + torch.eye(p)
    oracle = 0.5 * torch.einsum("npc,pq,nqc->n", delta, torch.linalg.inv(sigma), delta)
    variances, scale = sigma.diagonal(), np.linalg.inv(sigma.numpy())
    of_variances = 0.5 * (delta.square() / variances[:, None]).sum((1, 2))
    given = {"full": (sigma.numpy(), oracle), "torch": (sigma, oracle),
             "function": (lambda change: scale @ change, oracle),
             "variances": (variances.numpy(), of_variances)}  # fmt: skip
    for smoothing, expected in given.values():
        information = sample_information(lin, smoothing=smoothing, **run)
        np.testing.assert_allclose(information.information, expected, rtol=1e-8)
        assert information.smoothing == "given"
    unit = sample_information(lin, smoothing=np.full(p, 4.0), **run).information
    isotropic = sample_information(lin, smoothing="isotropic", sigma=2.0, **run).information
    np.testing.assert_allclose(unit, isotropic, rtol=1e-9)


@pytest.mark.parametrize(
    ("smoothing", "more", "message"),
    [
        (np.ones(3), {}, r"must be \[8\] variances or a \[8, 8\] covariance .* got shape \[3\]"),
        (-np.ones(8), {}, "finite, symmetric and positive definite"),
        (np.triu(np.ones((8, 8))), {}, "finite, symmetric and positive definite"),
        (np.ones((8, 8)), {}, "finite, symmetric and positive definite"),
        (lambda change: -change, {}, "positive definite Σ, or nats fall below 0; got -"),
        (lambda change: change[:2], {}, r"in the shape of Δ, \[8, 20\]; got \[2, 20\]"),
        (np.ones(8), {"sigma": 2.0}, "sigma must be left at 1 for smoothing='given'"),
        (np.ones(8), {"batch_size": 2}, r"batch_size belongs to .* with 'given'"),
        ("langevin", {}, "batch_size must be given for smoothing='langevin'"),
        ("sgd_outputs", {"batch_size": 2, "sigma": 2.0}, "sigma must be left at 1"),
    ],
)
def test_bad_smoothings(smoothing, more, message):
    lin = random_linearization(20, 1, 1, 8, 4, seed=9, dual=False)
    with pytest.raises(SettingError, match=message):
        sample_information(lin, smoothing=smoothing, **more)


def test_a_covariance_needs_features():
    lin = random_linearization(20, 1, 1, 8, 4, seed=9)
    with pytest.raises(SettingError, match=r"holds features, .* got a kernel"):
        sample_information(lin, smoothing=np.ones(8))
