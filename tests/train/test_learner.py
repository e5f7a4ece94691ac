"""Estimators that are fitted again and again: what each is given."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

from datassay.data.samples import SampleSet
from datassay.train.learner import Estimators

GIVEN = []


class Recording(RegressorMixin, BaseEstimator):
    """Keeps the weights that it is fitted with."""

    def fit(self, X, y, sample_weight=None):
        GIVEN.append((X, y, sample_weight))
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        return np.zeros(len(X))


@pytest.mark.parametrize("scale", [1, 7])
def test_weights_have_mean_1_on_each_subset_whatever_their_scale(scale):
    x = np.arange(12.0).reshape(6, 2)
    train = SampleSet(x, np.arange(6.0), np.arange(6))
    weights, subsets = scale * np.array([1.0, 2, 3, 4, 5, 6]), np.array([[0, 2, 4], [5, 1, 3]])
    GIVEN.clear()
    list(Estimators(Recording(), 2).fits(train, subsets, weights))
    for (rows, targets, weight), chosen in zip(GIVEN, subsets, strict=True):
        np.testing.assert_array_equal(rows, x[chosen])
        assert targets.tolist() == chosen.tolist()
        assert weight == pytest.approx((chosen + 1) / (chosen + 1).mean())
