"""PolynomialClassifier, PolynomialRegressor, MonomialFeatures: conformance and what they promise."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import parametrize_with_checks

from datassay.errors import DataError, SettingError
from datassay.estimators.monomial_features import MonomialFeatures
from datassay.estimators.polynomial import PolynomialClassifier, PolynomialRegressor


@parametrize_with_checks([
    PolynomialClassifier(),
    PolynomialRegressor(),
    PolynomialClassifier(degree=1, solver="batched", n_batches=30, batch_size=8),
    MonomialFeatures(),
])
def test_scikit_learn_conformance(estimator, check):
    check(estimator)
