"""Influence at the linearised network's ridge fit, against autograd and against all pairs."""

import numpy as np
import pytest
import torch
from scipy.stats import kurtosis, skew

from datassay.collect.form import MOST_PARTNERS
from datassay.errors import DataError, SettingError
from datassay.score.influence.linear import SCORE, influence_steps, linear_influence
from datassay.score.registry import Sizes
from helpers.counted import counted
from helpers.linearizations import form, linearization, random_jacobians

N, P, RIDGE = 30, 8, 0.7


def problem(b=1, c=3, p=P, dual=False, scale=1.0):
    phi, residual, _ = random_jacobians(N, b, c, p, 1, seed=b)
    return linearization(scale * phi, residual, dual=dual), scale * phi, residual


def all_pairs(phi, residual, ridge):
    """X by the definition, from the Jacobian of every output in every weight, at the minimum."""
    n, b, p = phi.shape
    c = residual.shape[2]
    jacobian = torch.einsum("nbp,ce->nbcpe", phi, torch.eye(c).double()).reshape(n, b * c, p * c)
    y = residual.reshape(n, b * c)
    flat = jacobian.flatten(0, 1)
    hessian = (flat.T @ flat + ridge * torch.eye(p * c).double()) / n
    w = torch.linalg.solve(hessian, flat.T @ y.flatten() / n)
    gradients = torch.einsum("nkp,nk->np", jacobian, jacobian @ w - y)
    assert float((gradients.mean(0) + ridge / n * w).norm()) < 1e-10  # a minimum
    return -(gradients @ torch.linalg.solve(hessian, gradients.T)).numpy()


@pytest.mark.parametrize(
    ("b", "c", "dual", "p"),
    [(1, 3, False, 8), (3, 1, False, 8), (1, 2, True, 40), (1, 2, True, 90), (3, 1, True, 150)],
)
def test_all_partners_by_the_definition(b, c, dual, p):
    lin, phi, residual = problem(b, c, p, dual)
    x = all_pairs(phi, residual, RIDGE)
    moments = linear_influence(lin, ridge=RIDGE)
    others = x[~np.eye(N, dtype=bool)].reshape(N, N - 1)
    assert moments.n_partners == N and moments.total_variance_error == 0
    for ours, oracle in (
        (moments.own, np.diag(x)),
        (moments.mean, others.mean(1)),
        (moments.variance, others.var(1)),
        (moments.skewness, skew(others, axis=1)),
        (moments.kurtosis, kurtosis(others, axis=1, fisher=False)),
        (moments.total_mean, others.mean()),
        (moments.total_variance, others.var()),
    ):
        np.testing.assert_allclose(ours, oracle, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("b", "c"), [(1, 2), (3, 1)])
def test_a_fit_that_nearly_meets_the_labels_keeps_its_digits(b, c):
    lin, phi, residual = problem(b, c, 150, dual=True)
    rows, ridge = phi.flatten(0, 1), 1e-6
    remainder = ridge * torch.linalg.inv(rows @ rows.T + ridge * torch.eye(N * b).double())
    errors = (-remainder @ residual.flatten(0, 1)).reshape(N, b, c)
    # X(z, z') = -n e_z H e_z' with H = I - R, which is -R between two samples.
    x = N * torch.einsum("iac,iajb,jbc->ij", errors, remainder.reshape(N, b, N, b), errors).numpy()
    others = x[~np.eye(N, dtype=bool)].reshape(N, N - 1)
    moments = linear_influence(lin, ridge=ridge)
    for ours, oracle in ((moments.mean, others.mean(1)), (moments.variance, others.var(1))):
        np.testing.assert_allclose(ours, oracle, rtol=1e-9, atol=1e-12 * np.abs(oracle).max())
    own = np.diag(x) - N * errors.square().sum((1, 2)).numpy()
    np.testing.assert_allclose(moments.own, own, rtol=1e-10)


def test_drawn_partners_err_by_about_their_standard_error():
    lin, phi, residual = problem()
    x = all_pairs(phi, residual, RIDGE)
    exact = x[~np.eye(N, dtype=bool)].var()
    drawn = [linear_influence(lin, ridge=RIDGE, n_partners=12, seed=s) for s in range(60)]
    values = np.array([d.total_variance for d in drawn])
    assert abs(values.mean() - exact) < 4 * values.std() / 60**0.5
    ratio = np.mean([d.total_variance_error for d in drawn]) / values.std()
    assert 0.6 < ratio < 1.6
    everyone = linear_influence(lin, ridge=RIDGE)
    np.testing.assert_allclose(drawn[0].mean, everyone.mean, rtol=1e-10)


def test_units():
    """Features times u and the ridge times u²: the fit, and so X, stay as they were."""
    one, two = problem()[0], problem(scale=3.0)[0]
    a, b = linear_influence(one, ridge=RIDGE), linear_influence(two, ridge=9 * RIDGE)
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-9)
    np.testing.assert_allclose(a.variance, b.variance, rtol=1e-9)
    assert a.to_table().num_rows == N
    assert a.to_table().column_names[:2] == ["id", "influence_mean"]


@pytest.mark.parametrize("scale", [1e-70, 1e-50, 1e50, 1e70])
def test_moments_without_unit_are_the_same_of_targets_of_any_size(scale):
    lin, phi, residual = problem()
    (plain, steps), far = (
        counted(linear_influence, lin, ridge=RIDGE),
        linearization(phi, scale * residual, dual=False),
    )
    assert steps["influence on others"] == (1, N)
    moments = linear_influence(far, ridge=RIDGE)
    for name in ("skewness", "kurtosis"):
        np.testing.assert_allclose(getattr(moments, name), getattr(plain, name), rtol=1e-7)
    np.testing.assert_allclose(moments.mean / scale / scale, plain.mean, rtol=1e-9)


def test_a_sample_that_moves_nothing_has_moments_of_zero():
    phi, residual, _ = random_jacobians(N, 1, 3, P, 1, seed=1)
    phi[4] = 0.0
    moments = linear_influence(linearization(phi, residual, dual=False), ridge=RIDGE)
    for name in ("mean", "variance", "skewness", "kurtosis"):
        values = getattr(moments, name)
        assert values[4] == 0 and np.isfinite(values).all() and values[3] != 0


@pytest.mark.parametrize("n", [10, MOST_PARTNERS, MOST_PARTNERS + 1, 8001])
def test_a_plan_counts_products_with_partners_and_rows_read_twice(n):
    for kind, p in (("kernel", 2 * n), ("features", 7)):
        one = form(kind, "joint", 2 * n, 7, 2)
        (step,) = influence_steps(Sizes(form=one, train=n, val=5))
        s = min(n, MOST_PARTNERS)
        flops = 2.0 * n * p * s + (4.0 * n * 2 * p**2 if kind == "features" else 0)
        assert step.work == {"float64": flops, "values": 32.0 * n * s}
        assert step.detail == f"{s} partners per sample"
        assert SCORE.is_in_text and SCORE.cost is influence_steps
        left_out = influence_steps(Sizes(form=one, train=n, val=5, options={"attribution": "none"}))
        assert bool(left_out) == (n <= 8000)


def test_what_is_refused():
    lin = problem()[0]
    for ridge in (0.0, -1.0, float("inf")):
        with pytest.raises(SettingError, match="ridge must be positive"):
            linear_influence(lin, ridge=ridge)
    with pytest.raises(SettingError, match="n_partners must be at least 3"):
        linear_influence(lin, ridge=1.0, n_partners=2)
    with pytest.raises(DataError, match="at least 4 samples"):
        linear_influence(lin.subset(np.arange(3)), ridge=1.0)
    phi, residual, _ = random_jacobians(N, 1, 1, P, 1, 0)
    with pytest.raises(DataError, match="must differ between pairs"):
        linear_influence(linearization(phi, 0 * residual, dual=False), ridge=1.0)
