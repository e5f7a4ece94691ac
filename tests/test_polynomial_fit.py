"""Fits of polynomials against numpy, against brute force, and what they refuse."""

import numpy as np
import pytest

from datassay.polynomial import exact
from datassay.polynomial.exact import ridge_path
from datassay.polynomial.fit import fit_polynomial
from datassay.polynomial.monomials import all_monomials
from datassay.polynomial.normal_equations import normal_equations


def data(n=60, d=3, q=2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return x, np.sin(x @ rng.normal(size=(d, q))) + 0.1 * rng.normal(size=(n, q)) + 2


def design(x, monomials):
    """Features with the mean taken off, so that no norm counts the constant."""
    features = monomials.features(x)[:, 1:]
    return features - features.mean(0)


def ridge_outputs(x, y, monomials, ridge, at):
    features, mean = monomials.features(x)[:, 1:], monomials.features(x)[:, 1:].mean(0)
    phi = features - mean
    coef = np.linalg.solve(phi.T @ phi + ridge * np.eye(phi.shape[1]), phi.T @ (y - y.mean(0)))
    return y.mean(0) + (monomials.features(at)[:, 1:] - mean) @ coef


def test_the_exact_fit_is_that_of_lstsq():
    x, y = data()
    monomials = all_monomials(3, 3)
    ours = fit_polynomial(x, y, monomials, ridge=0, precision="float64")
    theirs = np.linalg.lstsq(monomials.features(x), y, rcond=None)[0]
    np.testing.assert_allclose(ours.polynomial.coef, theirs, atol=1e-8)
    assert ours.rank == monomials.n_features - 1


@pytest.mark.parametrize("n", [12, 60])
def test_the_minimum_norm_of_a_singular_fit_is_that_of_lstsq(n):
    x, y = data(n)
    x[:, 2] = x[:, 0] - x[:, 1]  # dependent columns for every n
    monomials = all_monomials(3, 3)
    ours = fit_polynomial(x, y, monomials, ridge=0, precision="float64")
    theirs, _, rank, _ = np.linalg.lstsq(design(x, monomials), y - y.mean(0), rcond=1e-9)
    np.testing.assert_allclose(ours.polynomial.coef[1:], theirs, atol=1e-8)
    assert ours.rank == rank < monomials.n_features - 1
    assert f"have rank {rank} of 19" in " ".join(ours.notes)


def test_leave_one_out_errors_are_those_of_fits_without_the_sample():
    x, y = data(25)
    monomials = all_monomials(3, 2)
    ridges = np.array([1e-3, 0.5, 20.0])
    path = ridge_path(normal_equations(x, y, monomials, precision="float64"), ridges)
    for j, ridge in enumerate(ridges):
        held = np.array([
            ridge_outputs(np.delete(x, i, 0), np.delete(y, i, 0), monomials, ridge, x[i : i + 1])[0]
            for i in range(25)
        ])
        assert path.squared_error[j] == pytest.approx(((y - held) ** 2).sum(1).mean(), rel=1e-9)
        assert path.class_error[j] == pytest.approx((held.argmax(1) != y.argmax(1)).mean())


def test_between_a_few_factors_the_path_is_that_of_all_eigenvalues(monkeypatch):
    x, y = data(400, 4, 3)
    normal = normal_equations(x, y, all_monomials(4, 4), precision="float64", n_rows=100)
    grid = np.geomspace(1e-2, 1e3, 21)
    every = ridge_path(normal, grid)
    auto = exact.exact_fit(normal).path
    monkeypatch.setattr(exact, "SPECTRUM", 10)
    few = ridge_path(normal, grid)
    assert every.poles == () and len(few.poles) == 6
    np.testing.assert_allclose(few.squared_error, every.squared_error, rtol=5e-3)
    searched = exact.exact_fit(normal)
    assert searched.path.ridge[searched.path.chosen] == searched.ridge
    assert searched.path.squared_error.min() == pytest.approx(auto.squared_error.min(), rel=1e-2)
    found = ridge_outputs(x, y, normal.monomials, searched.ridge, x[:5])
    ours = normal.monomials.features(x[:5]) @ searched.coef
    np.testing.assert_allclose(ours, found, atol=1e-9)
