"""The cosine encoding against its definition, and its transformer by scikit-learn's checks."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from datassay.data.synthetic.builtin import BUILTINS
from datassay.errors import DataError, SettingError
from datassay.methods.polynomial.encodings import cosine_coefficients, cosine_encoding, largest
from datassay.methods.polynomial.estimators.cosine_encoder import CosineEncoder


@parametrize_with_checks([CosineEncoder(share=0.5)])
def test_scikit_learn_conformance(estimator, check):
    check(estimator)


def images(n=50, rows=5, columns=6, seed=0):
    return np.random.default_rng(seed).random((n, rows * columns))


def basis(size):
    k, i = np.indices((size, size))
    norm = np.where(np.arange(size) == 0, (1 / size) ** 0.5, (2 / size) ** 0.5)
    return norm[:, None] * np.cos(np.pi * k * (2 * i + 1) / (2 * size))


def test_coefficients_are_the_cosine_transform_of_rows_and_columns():
    x = images()
    expected = basis(5) @ x.reshape(-1, 5, 6) @ basis(6).T
    ours = cosine_coefficients(x, (5, 6))
    np.testing.assert_allclose(ours, expected.reshape(x.shape), atol=1e-12)
    np.testing.assert_allclose((ours**2).sum(1), (x**2).sum(1))


def test_an_encoding_keeps_the_largest_of_each_image_where_many_have_them():
    x = images()
    encoding = cosine_encoding(x, (5, 6), share=0.2, min_frequency=0.3)
    coef = cosine_coefficients(x, (5, 6))
    size = np.abs(coef)
    kept = size >= np.sort(size, axis=1)[:, -6:-5]  # round(0.2 · 30) a row
    assert (kept.sum(1) == 6).all()
    np.testing.assert_allclose(encoding.frequency, kept.mean(0))
    assert encoding.coordinates.tolist() == np.flatnonzero(kept.mean(0) >= 0.3).tolist()
    assert encoding.factor == len(encoding.coordinates) / 30
    np.testing.assert_allclose(encoding.encode(x), (coef * kept)[:, encoding.coordinates])
    two = cosine_encoding(x, (5, 6), share=0.2, n_coordinates=2)
    assert set(two.coordinates) == set(np.argsort(-encoding.frequency, kind="stable")[:2])


def test_an_encoding_of_everything_loses_nothing_and_scales_with_the_images():
    x = images()
    encoding = cosine_encoding(x, (5, 6), share=1.0, min_frequency=1e-9)
    np.testing.assert_allclose(encoding.decode(encoding.encode(x)), x, atol=1e-12)
    some = cosine_encoding(x, (5, 6))
    np.testing.assert_allclose(some.encode(3 * x), 3 * some.encode(x))
    assert some.encode(x.astype(np.float32)).dtype == np.float32
    assert some.encode(x[:0]).shape == (0, len(some.coordinates))
    assert not largest(np.zeros((2, 5)), 0.5).any()
    assert largest(np.array([[0.0, 2.0, -3.0, 1.0]]), 0.01).tolist() == [[0, 0, 1, 0]]


def test_a_tenth_of_the_coefficients_draws_a_digit():
    x = BUILTINS["digits"]().train.x.reshape(-1, 64)
    x = x[x.any(axis=1)].astype(np.float64)
    encoding = cosine_encoding(x, (8, 8), share=0.25, min_frequency=0.02)
    lost = x - encoding.decode(encoding.encode(x))
    assert (lost**2).sum() < 0.1 * (x**2).sum()  # S3 §3.3.4: "quite good"


def test_in_a_pipeline_and_back():
    x = images(200, 8, 8)
    y = (x.reshape(-1, 8, 8)[:, :4].sum((1, 2)) > x.reshape(-1, 8, 8)[:, 4:].sum((1, 2))).astype(
        int
    )
    for encoder in (CosineEncoder(share=1, n_coordinates=40), PCA(40, random_state=0)):
        assert make_pipeline(encoder, RidgeClassifier()).fit(x, y).score(x, y) > 0.8
    encoder = CosineEncoder(share=1).fit(x)
    np.testing.assert_allclose(encoder.inverse_transform(encoder.transform(x)), x, atol=1e-12)
    assert encoder.encoding_.image_shape == (8, 8)
    assert CosineEncoder(image_shape=(4, 16)).fit(x).encoding_.image_shape == (4, 16)
    assert CosineEncoder().fit(x[:, :10]).encoding_.image_shape == (1, 10)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda x: cosine_encoding(x, (5, 5)), DataError, r"images of 5 x 5 pixels; got .*30"),
        (lambda x: cosine_encoding(x[:0], (5, 6)), DataError, r"got shape \[0, 30\]"),
        (lambda x: cosine_encoding(x, (5, 6), share=0), SettingError, r"share must lie .* got 0"),
        (lambda x: cosine_encoding(x, (5, 6), min_frequency=2), SettingError, r"min_freq.* got 2"),
        (lambda x: cosine_encoding(x, (5, 6), n_coordinates=0), SettingError, r"or None; got 0"),
        (lambda x: cosine_encoding(0 * x, (5, 6)), DataError, r"most frequent is kept in 0\."),
        (lambda x: cosine_encoding(x, (5, 6)).encode(x[:, :4]), DataError, r"30 pixels .* got 4"),
        (lambda x: cosine_encoding(x, (5, 6)).decode(x), DataError, r"coefficients .* got 30"),
    ],
)
def test_what_is_refused(call, error, match):
    with pytest.raises(error, match=match):
        call(images())
