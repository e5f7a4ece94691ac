"""Products with the covariance of deviations, against the covariance written out."""

import numpy as np
from numpy.testing import assert_allclose

from datassay.act.review.outcomes import Term, covariance, product, quadratic, sums_by_code


def made(n=40, seed=0):
    rng = np.random.default_rng(seed)
    return [
        Term(1.0, np.zeros(n, np.int64), np.ones((n, 1))),
        Term(0.5, rng.integers(4, size=n), rng.normal(size=(n, 1))),
        Term(2.0, rng.integers(7, size=n), rng.normal(size=(n, 3))),
    ]


def written_out(terms):
    n = len(terms[0].codes)
    return np.array([
        [
            sum(
                t.spread**2 * (t.codes[i] == t.codes[j]) * (t.values[i] @ t.values[j])
                for t in terms
            )
            for j in range(n)
        ]
        for i in range(n)
    ])


def test_covariance_is_the_definition():
    terms, rows = made(), np.array([3, 17, 5])
    assert_allclose(covariance(terms, rows), written_out(terms)[np.ix_(rows, rows)])


def test_product_and_form_are_those_of_the_matrix():
    terms, rng = made(), np.random.default_rng(1)
    rows = rng.permutation(40)[:25]
    weights = rng.normal(size=25)
    sums, every = sums_by_code(terms, rows, weights), written_out(terms)
    assert_allclose(product(terms, sums, slice(None)), every[:, rows] @ weights)
    assert_allclose(product(terms, sums, rows[:4]), every[np.ix_(rows[:4], rows)] @ weights)
    assert_allclose(quadratic(terms, sums), weights @ every[np.ix_(rows, rows)] @ weights)


def test_of_no_samples_the_product_is_zero():
    terms, none = made(), np.zeros(0, np.int64)
    sums = sums_by_code(terms, none, np.zeros(0))
    assert (product(terms, sums, slice(None)) == 0).all() and quadratic(terms, sums) == 0
