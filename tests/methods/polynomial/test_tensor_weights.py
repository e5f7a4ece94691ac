"""Tensor weights against the network they stand for, written out."""

from itertools import combinations_with_replacement
from math import prod

import numpy as np
import pytest
from numpy.polynomial.polynomial import polyval
from sklearn.metrics import r2_score

from datassay.errors import DatassayError
from datassay.methods.polynomial.activation import l2_activation, minimax_activation
from datassay.methods.polynomial.model import Polynomial
from datassay.methods.polynomial.monomials import all_monomials, local_monomials
from datassay.methods.polynomial.tensor_weights import (
    posterior_activation,
    tensor_weights,
    weight_match,
)

A = np.array([0.3, -1.0, 0.7, 0.2])


def layer(d=4, m=5, q=2, seed=0):
    g = np.random.default_rng(seed)
    return g.normal(size=(d, m)), g.normal(size=(m, q)), g.normal(size=m)


@pytest.mark.parametrize("with_biases", [True, False])
def test_the_polynomial_is_the_network(with_biases):
    w, b, c = layer()
    c = c if with_biases else np.zeros(5)
    x = np.random.default_rng(1).normal(size=(30, 4))
    monomials = all_monomials(4, 3)
    result = tensor_weights(w, b, A, monomials, biases=c if with_biases else None)
    polynomial = Polynomial(monomials, result / monomials.scale[:, None])
    np.testing.assert_allclose(polynomial.outputs(x), polyval(x @ w + c, A) @ b, rtol=1e-10)
    np.testing.assert_allclose(polynomial.monomial_coef, result)


def test_without_multiplicities_as_s3_prints_it():
    w, b, _ = layer()
    monomials = all_monomials(4, 3)
    result = tensor_weights(w, b, A, monomials, multiplicities=False)
    written = [
        A[t] * sum(b[i] * prod(w[j, i] for j in term) for i in range(5))
        for t in range(4)
        for term in combinations_with_replacement(range(4), t)
    ]
    np.testing.assert_allclose(result, written, rtol=1e-10)
    window = local_monomials((2, 2), 3, 1)
    rows = [monomials.terms.tolist().index(term) for term in window.terms.tolist()]
    both = tensor_weights(w, b, A, monomials)
    np.testing.assert_allclose(tensor_weights(w, b, A, window), both[rows], rtol=1e-12)
    np.testing.assert_allclose(both, result * monomials.scale[:, None] ** 2, rtol=1e-10)


@pytest.mark.parametrize("with_biases", [True, False])
@pytest.mark.parametrize("multiplicities", [True, False])
def test_posterior_finds_the_activation(with_biases, multiplicities):
    w, b, c = layer()
    monomials = all_monomials(4, 3)
    how = {"biases": c if with_biases else None, "multiplicities": multiplicities}
    tensor = tensor_weights(w, b, A, monomials, **how)
    result = posterior_activation(tensor, w, b, monomials, **how)
    np.testing.assert_allclose(result, A, rtol=1e-9)


def test_posterior_is_one_ratio_a_degree():
    w, b, _ = layer()
    monomials = all_monomials(4, 2)
    beta = np.random.default_rng(2).normal(size=(15, 2))
    x = tensor_weights(w, b, np.ones(3), monomials)
    ratios = [  # S3 eq. (3.25)
        (x * beta)[monomials.degree == t].sum() / (x**2)[monomials.degree == t].sum()
        for t in range(3)
    ]
    np.testing.assert_allclose(posterior_activation(beta, w, b, monomials), ratios, rtol=1e-9)
    opposed = np.concatenate([b, -b])  # Σ b = 0: nothing tells a_0
    twice = np.concatenate([w, -w], axis=1)
    assert posterior_activation(beta, twice, opposed, monomials)[[0, 2]].tolist() == [0, 0]


def test_match_is_that_of_scikit_learn():
    monomials = all_monomials(3, 3)
    beta, network = np.random.default_rng(3).normal(size=(2, 20, 2))
    network = beta + 0.2 * network
    result = weight_match(beta, network, monomials)
    assert result.n_weights.tolist() == [6, 12, 20]
    for i, t in enumerate(result.degree):
        y, x = beta[monomials.degree == t].ravel(), network[monomials.degree == t].ravel()
        assert result.determination[i] == pytest.approx(r2_score(y, x))
        assert result.squared_correlation[i] == pytest.approx(np.corrcoef(y, x)[0, 1] ** 2)
        assert result.determination_from_zero[i] == pytest.approx(
            1 - ((y - x) ** 2).sum() / (y @ y)
        )
    nothing = weight_match(beta, 0 * beta, monomials)
    np.testing.assert_allclose(nothing.determination_from_zero, 0, atol=1e-12)
    assert np.isnan(nothing.squared_correlation).all()


def test_units_inputs_and_outputs():
    w, b, _ = layer()
    monomials = all_monomials(4, 3)
    one, other = tensor_weights(w, b, A, monomials), tensor_weights(w / 10, 3 * b, A, monomials)
    np.testing.assert_allclose(other, 3 * one * 0.1 ** monomials.degree[:, None], rtol=1e-10)
    match, same = (weight_match(f * one, f * one + f, monomials) for f in (1, 100))
    np.testing.assert_allclose(match.determination, same.determination)


def teacher_and_regression(law):
    """S3 §3.5, smaller: the teacher's own weights against the regression on its outputs."""
    g = np.random.default_rng(0)
    d, m = 20, 100
    w = g.normal(size=(d, m)) if law == "normal" else g.uniform(-1, 1, size=(d, m))
    w /= np.sqrt(d)
    x, monomials = g.normal(size=(12_000, d)), all_monomials(d, 2)
    features = monomials.features(x)
    right = features.T @ np.maximum(x @ w, 0).sum(axis=1)
    coef = np.linalg.solve(features.T @ features, right)[:, None]
    return w, Polynomial(monomials, coef)


@pytest.mark.parametrize(
    ("law", "expected", "better", "worse"),
    [
        # What the text of S3 draws, and a₂ of METHODS: L2 is the better prior.
        ("normal", [0.1995, 0.5, 0.1955], l2_activation, minimax_activation),
        # What S3's printed posterior (3.26) and Table 3.8 belong to.
        ("uniform", [0.114, 0.498, 0.352], minimax_activation, l2_activation),
    ],
)
def test_s3_posterior_and_order_of_priors(law, expected, better, worse):
    w, fit = teacher_and_regression(law)
    b, beta, monomials = np.ones(100), fit.monomial_coef, fit.monomials
    a = posterior_activation(beta, w, b, monomials)
    np.testing.assert_allclose(a, expected, rtol=0.05)

    def matched(coef, **how):
        tensor = tensor_weights(w, b, coef, monomials, **how)
        return weight_match(beta, tensor, monomials).determination

    assert (matched(a) > [0.998, 0.98]).all()
    bare = posterior_activation(beta, w, b, monomials, multiplicities=False)
    assert matched(bare, multiplicities=False)[1] < 0.95
    assert matched(better("relu", 2).coef)[1] > 0.95
    assert matched(worse("relu", 2).coef)[1] < 0.9


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"weights": np.ones((5, 4))}, r"monomials' 4 inputs; got \[5, 4\]"),
        ({"output_weights": np.ones((4, 2))}, r"\[5, q\] and biases \[5\].* got \[4, 2\]"),
        ({"biases": np.ones(3)}, r"got \[5, 2\] and \[3\]"),
        ({"activation": np.array([])}, r"finite coefficients a_0, a_1"),
        ({"activation": np.array([1.0, np.nan])}, r"finite coefficients a_0, a_1"),
        ({"monomial_coef": np.ones((15, 1))}, r"must be \[15, 2\], .* got \[15, 1\]"),
        ({"network": np.ones((15, 1))}, r"both be \[15, q\]; got \[15, 2\] and \[15, 1\]"),
    ],
)
def test_what_does_not_fit(change, match):
    w, b, _ = layer()
    given = {"weights": w, "output_weights": b, "monomials": all_monomials(4, 2), **change}
    beta, a = given.pop("monomial_coef", np.ones((15, 2))), given.pop("activation", A)
    network = given.pop("network", None)
    with pytest.raises(DatassayError, match=match):
        tensor_weights(activation=a, **given)
        posterior_activation(beta, **given)
        weight_match(beta, network, given["monomials"])
