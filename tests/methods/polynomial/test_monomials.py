"""Distinct monomials against their definition and the numbers in print."""

from itertools import product
from math import comb

import numpy as np
import pytest
from sklearn.preprocessing import PolynomialFeatures

from datassay.errors import DataError, SettingError
from datassay.methods.polynomial.monomials import all_monomials, local_monomials


def test_s3_counts_on_images_of_mnist():
    monomials = local_monomials((28, 28), degree=2, window=3)
    assert monomials.n_features == 10_155
    ordered = (monomials.scale**2).sum() - 1
    assert ordered == pytest.approx(18_740)  # S3 §3.4.2, without the constant


@pytest.mark.parametrize(("d", "degree"), [(1, 4), (3, 3), (5, 2)])
def test_all_monomials_are_those_of_scikit_learn(d, degree):
    x = np.random.default_rng(0).normal(size=(7, d))
    monomials = all_monomials(d, degree)
    theirs = PolynomialFeatures(degree).fit_transform(x)
    assert monomials.n_features == comb(d + degree, degree)
    ours = monomials.features(x)
    np.testing.assert_allclose(ours, theirs * monomials.scale, rtol=1e-12)
    np.testing.assert_allclose(monomials.features(2 * x), ours * 2.0**monomials.degree, rtol=1e-12)
    some = monomials.features(x.astype(np.float32), keep=np.array([0, 3, 4]), dtype=np.float32)
    assert some.dtype == np.float32
    np.testing.assert_allclose(some, ours[:, [0, 3, 4]], rtol=1e-5)


def test_scale_gives_the_inner_products_of_all_ordered_products():
    x, z = np.random.default_rng(1).normal(size=(2, 4))
    monomials = all_monomials(4, 3)
    ours = monomials.features(x[None]) @ monomials.features(z[None]).T
    inner = float(x @ z)
    assert ours.item() == pytest.approx(1 + inner + inner**2 + inner**3, rel=1e-12)


@pytest.mark.parametrize(("degree", "window"), [(1, 1), (2, 1), (2, 3), (3, 3)])
def test_local_monomials_are_the_products_that_a_window_covers(degree, window):
    height, width = 4, 5
    positions = {
        tuple(sorted(r * width + c for r, c in cells))
        for t in range(1, degree + 1)
        for cells in product(product(range(height), range(width)), repeat=t)
        if all(max(axis) - min(axis) < window for axis in zip(*cells, strict=True))
    }
    monomials = local_monomials((height, width), degree, window)
    ours = [tuple(i for i in term if i >= 0) for term in monomials.terms.tolist()]
    assert len(ours) == len(set(ours))
    assert set(ours) == positions | {()}


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (lambda: all_monomials(3, 0), r"degree must be at least 1; got 0"),
        (lambda: all_monomials(0, 1), r"n_inputs must be at least 1; got 0"),
        (lambda: all_monomials(784, 3), r"at most 500,000 features; got 80,931,145"),
        (lambda: local_monomials((8, 8), 2, 4), r"window must be odd .* got 4"),
        (lambda: local_monomials((8, 8), 2, 9), r"window must fit into the image of 8 x 8"),
        (lambda: local_monomials((8, 8, 3), 2, 3), r"image_shape must be rows, columns"),
        (lambda: local_monomials((99, 99), 9, 9), r"at most 500,000 features"),
        (lambda: all_monomials(3, 2).features(np.zeros((1, 2))), r"the 3 inputs .* got 2"),
    ],
)
def test_bad_settings(wrong, match):
    with pytest.raises((SettingError, DataError), match=match):
        wrong()
