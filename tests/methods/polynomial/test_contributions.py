"""What each product and input adds to an output, against its definition."""

from itertools import permutations

import numpy as np
import pytest

from datassay.errors import DataError, SettingError
from datassay.methods.polynomial.contributions import contributions
from datassay.methods.polynomial.model import Polynomial
from datassay.methods.polynomial.monomials import all_monomials, local_monomials


def some(monomials, q=2, seed=0):
    draw = np.random.default_rng(seed)
    polynomial = Polynomial(monomials, draw.normal(size=(monomials.n_features, q)))
    return polynomial, draw.normal(size=(3, monomials.n_inputs))


CASES = [all_monomials(4, 1), all_monomials(4, 3), local_monomials((6, 5), 2, 3)]


@pytest.mark.parametrize("monomials", CASES, ids=["linear", "cubic", "image"])
def test_they_sum_to_the_output(monomials):
    polynomial, x = some(monomials)
    result, outputs = contributions(polynomial, x), polynomial.outputs(x)
    np.testing.assert_allclose(result.outputs, outputs, rtol=0, atol=1e-10)
    np.testing.assert_allclose(result.by_degree.sum(1), outputs, rtol=0, atol=1e-10)
    np.testing.assert_allclose(result.by_degree[0, 0], result.constant)
    divided = result.shares.sum(1) + result.constant
    np.testing.assert_allclose(divided, outputs, rtol=0, atol=1e-10)
    tenfold = contributions(Polynomial(monomials, 10 * polynomial.coef), x)
    np.testing.assert_allclose(tenfold.shares, 10 * result.shares)
    with pytest.raises(DataError, match=rf"the {monomials.n_inputs} inputs .* got 2"):
        contributions(polynomial, x[:, :2])


def test_each_is_coefficient_times_product():
    polynomial, x = some(all_monomials(3, 3))
    result = contributions(polynomial, x)
    for index, term in enumerate(polynomial.monomials.terms.tolist()):
        product = np.prod([x[:, i] for i in term if i >= 0], axis=0)
        expected = np.outer(product * np.ones(3), polynomial.monomial_coef[index])
        np.testing.assert_allclose(result.value[:, index], expected, rtol=1e-12)


def test_shares_are_shapley_values_where_a_missing_input_is_zero():
    polynomial, x = some(all_monomials(3, 4), q=1)
    expected = np.zeros((3, 3))
    orders = list(permutations(range(3)))
    for order in orders:
        present = np.zeros((3, 3))
        for i in order:
            before = polynomial.outputs(x * present)[:, 0]
            present[:, i] = 1
            expected[:, i] += (polynomial.outputs(x * present)[:, 0] - before) / len(orders)
    result = contributions(polynomial, x).shares[:, :, 0]
    np.testing.assert_allclose(result, expected, atol=1e-10)


def test_the_top_products_are_the_largest_and_never_the_constant():
    monomials = all_monomials(3, 2)
    coef = np.zeros((10, 1))
    coef[[0, 2, 5, 9]] = [[99], [1], [-3], [2]]
    result = contributions(Polynomial(monomials, coef), np.ones((1, 3)))
    assert result.top(0, 0).tolist() == [5, 9, 2]  # -3 √2 is of x₀x₁; six others add nothing
    assert result.top(0, 0, 1).tolist() == [5]
    with pytest.raises(SettingError, match=r"n_top must be at least 1; got 0"):
        result.top(0, 0, 0)
