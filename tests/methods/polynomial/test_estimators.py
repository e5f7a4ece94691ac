"""The polynomial estimators and the transformer: conformance and what they promise."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import parametrize_with_checks

from datassay.errors import DataError, SettingError
from datassay.methods.polynomial.estimators.monomial_features import MonomialFeatures
from datassay.methods.polynomial.estimators.polynomial import (
    PolynomialClassifier,
    PolynomialRegressor,
)


@parametrize_with_checks([
    PolynomialClassifier(),
    PolynomialRegressor(),
    PolynomialClassifier(degree=1, solver="batched", n_batches=30, batch_size=8),
    MonomialFeatures(),
])
def test_scikit_learn_conformance(estimator, check):
    check(estimator)


def digits():
    x, y = load_digits(return_X_y=True)
    return x[:1200] / 16, y[:1200], x[1200:] / 16, y[1200:]


def test_digits_by_products_near_each_other():
    x, y, x_test, y_test = digits()
    names = np.array(list("abcdefghij"))
    ours = PolynomialClassifier(degree=2, window=3, image_shape=(8, 8)).fit(x, names[y])
    assert ours.score(x_test, names[y_test]) > 0.95
    assert ours.decision_function(x_test).shape == (len(x_test), 10)
    maps = ours.coef_maps()
    assert maps.degree_1.shape == (10, 8, 8) and maps.degree_2.shape == (10, 15, 15)
    assert ours.fit_.ridge > 0 and not hasattr(ours, "predict_proba")


def test_parts_give_the_fit_to_all():
    x, y, x_test, _ = digits()
    order = np.argsort(y, kind="stable")  # the first part lacks classes and some live pixels
    x, y = x[order], y[order]
    settings = {"window": 3, "image_shape": (8, 8), "ridge": 0.3}
    parts = PolynomialClassifier(**settings)
    for index in np.array_split(np.arange(len(y)), 3):
        parts.partial_fit(x[index], y[index], classes=np.arange(10))
    whole = PolynomialClassifier(**settings).fit(x, y)
    np.testing.assert_allclose(
        parts.decision_function(x_test), whole.decision_function(x_test), atol=1e-10
    )
    rng = np.random.default_rng(0)
    z, t = rng.normal(size=(90, 3)), rng.normal(size=90)
    one, other = (PolynomialRegressor(ridge=0.1, standardize=False) for _ in range(2))
    one.fit(z[:40], t[:40]).partial_fit(z[40:], t[40:])
    np.testing.assert_allclose(one.predict(z), other.fit(z, t).predict(z), atol=1e-10)


UNLIKE = np.array([1e-6, 1.0, 1e4, 1e8])


def test_a_ridge_fit_is_that_of_standardised_columns_whatever_their_unit():
    """R² against numpy's ridge on standardised products; coefficients are those of X itself."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(300, 4))
    y = z[:, 0] + z[:, 1] * z[:, 2] - z[:, 3] ** 2 + 0.3 * rng.normal(size=300)
    z, y, new, y_new = z[:200], y[:200], z[200:], y[200:]
    scaled = (z - z.mean(0)) / z.std(0)
    features = MonomialFeatures(2).fit_transform(scaled)[:, 1:]
    centred = features - features.mean(0)
    beta = np.linalg.solve(centred.T @ centred + 0.5 * np.eye(14), centred.T @ (y - y.mean()))
    of_new = MonomialFeatures(2).fit_transform((new - z.mean(0)) / z.std(0))[:, 1:]
    oracle = (of_new - features.mean(0)) @ beta + y.mean()
    for unit, offset in ((1.0, 0.0), (UNLIKE, 0.0), (UNLIKE, 1e3 * UNLIKE)):
        model = PolynomialRegressor(ridge=0.5).fit(z * unit + offset, y)
        np.testing.assert_allclose(model.predict(new * unit + offset), oracle, atol=1e-7)
        assert model.score(new * unit + offset, y_new) > 0.95
        read = model.fit_.polynomial.outputs(new * unit + offset)[:, 0]  # offsets cancel there
        np.testing.assert_allclose(read, oracle, atol=1e-6)
        automatic = PolynomialRegressor(degree=3).fit(z * unit + offset, y)
        assert automatic.score(new * unit + offset, y_new) > 0.94
    images, digit, x_test, y_test = digits()
    one, other = (PolynomialClassifier(window=3, image_shape=(8, 8)) for _ in range(2))
    accuracy = one.fit(images, digit).score(x_test, y_test)
    assert other.fit(255 * images, digit).score(255 * x_test, y_test) == accuracy


def test_features_are_those_of_scikit_learn_with_their_weights():
    x = np.random.default_rng(0).normal(size=(5, 3))
    theirs = PolynomialFeatures(3).fit(x)
    plain = MonomialFeatures(3, scaled=False).fit(x)
    np.testing.assert_allclose(plain.transform(x), theirs.transform(x), rtol=1e-12)
    assert list(plain.get_feature_names_out()) == list(theirs.get_feature_names_out())
    scaled = MonomialFeatures(3).fit_transform(x)
    np.testing.assert_allclose(scaled, theirs.transform(x) * plain.monomials_.scale, rtol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"window": 3}, "window needs image_shape"),
        ({"window": 3, "image_shape": (3, 5)}, "one pixel per column of X, 4"),
        ({"window": 3, "image_shape": (2, 2)}, "window must fit into the image"),
        ({"image_shape": (1, 2, 2)}, "image_shape must be rows, columns"),
        ({"degree": 0}, "degree must be at least 1"),
        ({"solver": "quick"}, "solver must be 'exact' or 'batched'; got 'quick'"),
        ({"solver": "batched"}, "batch_size must be between 2 and the 20 samples"),
        ({"ridge": -1.0}, "ridge must be 'auto' or a number of at least 0; got -1"),
    ],
)
def test_bad_settings(wrong, match):
    x, y = np.random.default_rng(0).normal(size=(20, 4)), np.arange(20) % 2
    with pytest.raises(SettingError, match=match):
        PolynomialClassifier(**wrong).fit(x, y)


def test_bad_targets():
    x = np.random.default_rng(0).normal(size=(20, 4))
    one, three, classifier = np.ones(20), np.arange(20) % 3, PolynomialClassifier
    for fit, message in (
        (lambda: PolynomialRegressor().fit(x, one), "targets must differ between samples; all 20"),
        (lambda: classifier().fit(x, one), "at least 2 classes; got 1 class"),
        (lambda: classifier().partial_fit(x, three, classes=[0, 1]), "labels among the classes"),
        (lambda: classifier().partial_fit(x, three), "in the first call"),
    ):
        with pytest.raises(DataError, match=message):
            fit()
