"""Coefficient maps against their definition, S3 §3.6.1."""

from dataclasses import replace

import numpy as np
import pytest

from datassay.errors import SettingError
from datassay.methods.polynomial.maps import coef_maps
from datassay.methods.polynomial.model import Polynomial
from datassay.methods.polynomial.monomials import all_monomials, local_monomials

HEIGHT, WIDTH = 5, 6


def some(degree=2, window=3, q=2, seed=0):
    monomials = local_monomials((HEIGHT, WIDTH), degree, window)
    draw = np.random.default_rng(seed)
    return Polynomial(monomials, draw.normal(size=(monomials.n_features, q)))


def ordered(polynomial):
    """β_i and β_ij of S3 eq. (3.27), both orders of a pair apart: the root of 2 twice."""
    d = HEIGHT * WIDTH
    one, two = np.zeros((2, d)), np.zeros((2, d, d))
    monomials = polynomial.monomials
    for term, scale, coef in zip(
        monomials.terms.tolist(), monomials.scale, polynomial.coef, strict=True
    ):
        i, j = term[-2:]
        if i < 0 <= j:
            one[:, j] = coef
        elif i >= 0:
            two[:, i, j] = two[:, j, i] = coef / scale
    return one, two


def test_the_ordered_model_of_the_thesis_is_the_same_function():
    polynomial = some()
    x = np.random.default_rng(1).normal(size=(3, HEIGHT * WIDTH))
    one, two = ordered(polynomial)
    expected = polynomial.coef[0] + x @ one.T + np.einsum("ni,qij,nj->nq", x, two, x)
    np.testing.assert_allclose(polynomial.outputs(x), expected, rtol=1e-12)


def test_maps_are_their_definition():
    polynomial = some()
    maps = coef_maps(polynomial)
    one, two = ordered(polynomial)
    assert np.array_equal(maps.degree_1, one.reshape(2, HEIGHT, WIDTH))
    halves = np.zeros((2, 2 * HEIGHT - 1, 2 * WIDTH - 1))
    for i in range(HEIGHT * WIDTH):
        for j in range(HEIGHT * WIDTH):
            (a, b), (c, d) = divmod(i, WIDTH), divmod(j, WIDTH)
            halves[:, a + c, b + d] += two[:, i, j]
    np.testing.assert_allclose(maps.degree_2, halves, atol=1e-12)


def test_units_maps_scale_as_their_coefficients():
    polynomial = some(degree=3)
    maps = coef_maps(polynomial)
    brighter = polynomial.coef * 2.0 ** -polynomial.monomials.degree[:, None]
    scaled = coef_maps(replace(polynomial, coef=brighter))
    np.testing.assert_allclose(scaled.degree_1, maps.degree_1 / 2)
    np.testing.assert_allclose(scaled.degree_2, maps.degree_2 / 4)


def test_pairs_far_apart_have_a_middle_too():
    monomials = replace(all_monomials(6, 2), image_shape=(2, 3))
    maps = coef_maps(Polynomial(monomials, np.ones((monomials.n_features, 1))))
    ends = 2 * np.sqrt(2)  # of both diagonals: β is √2 for a coefficient of 1
    assert maps.degree_2[0, 1, 2] == pytest.approx(ends + np.sqrt(2))
    assert maps.degree_2.sum() == pytest.approx(15 * np.sqrt(2) + 6)
    assert not coef_maps(some(degree=1, window=1)).degree_2.any()
    monomials = all_monomials(3, 2)
    with pytest.raises(SettingError, match=r"need inputs that are an image; got 3 inputs"):
        coef_maps(Polynomial(monomials, np.zeros((10, 1))))
