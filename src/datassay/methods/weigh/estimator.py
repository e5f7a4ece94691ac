"""Local-variance weights around any estimator whose fit takes sample_weight."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from datassay.data.scaling import column_units
from datassay.errors import SettingError
from datassay.estimators.validation import checked_weights, validate_classes, validate_xy
from datassay.methods.weigh.settings import Weighting
from datassay.methods.weigh.weights import local_variance_weights


def _estimator_has(name: str) -> Any:
    """Return a check for `available_if`: whether the wrapped estimator has the method."""

    def check(self: _LocalVariance) -> bool:
        estimator = getattr(self, "estimator_", self.estimator)
        if estimator is None:
            estimator = self._default()
        getattr(estimator, name)  # its AttributeError says what is missing
        return True

    return check


class _LocalVariance(MetaEstimatorMixin, BaseEstimator):
    """Shared by classifier and regressor: parameters, weights and the estimator's fit."""

    def __init__(  # scikit-learn passes anything here and checks in fit, and so do we
        self,
        estimator: Any = None,
        n_neighbors: Any = Weighting.n_neighbors,
        max_ratio: Any = Weighting.max_ratio,
        search: Any = Weighting.search,
    ):
        self.estimator = estimator
        self.n_neighbors = n_neighbors
        self.max_ratio = max_ratio
        self.search = search

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Weight the samples and fit the estimator.

        Args:
            X: inputs, [n, d].
            y: labels or targets, [n].
            sample_weight: the user's own, [n], multiplied with ours.

        Returns:
            This estimator.

        Raises:
            DataError: one class only, or sample_weight is not [n] numbers of at least 0.
            SettingError: n_neighbors or max_ratio is out of range, or the estimator takes no
                sample_weight.
        """
        X, y, targets = self._read(X, y)
        estimator: Any = self._default() if self.estimator is None else clone(self.estimator)
        if not has_fit_parameter(estimator, "sample_weight"):
            raise SettingError(
                "estimator must take sample_weight in fit; "
                f"{type(estimator).__name__} does not. Put this one inside the pipeline, around "
                "its last step, or choose an estimator that weights its samples."
            )
        given_weight = checked_weights(sample_weight, X)
        if self.estimator is not None:
            self._units = (0.0, 1.0)
        else:
            self._units = column_units(X)
        columns = self._scale_columns(X)
        local_weight = local_variance_weights(
            columns.astype(np.float64),
            targets,
            self.n_neighbors,
            self.max_ratio,
            search=self.search,
        )
        product = given_weight * local_weight
        self.sample_weight_ = product * (given_weight.sum() / product.sum())
        self.estimator_ = estimator.fit(columns, y, sample_weight=self.sample_weight_)
        return self

    def _read(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return X, what the estimator fits, and the numbers whose variance counts."""
        raise NotImplementedError

    def _scale_columns(self, X: np.ndarray) -> np.ndarray:
        """Return standardised columns for the default estimator, X itself for the user's."""
        center, spread = self._units
        if self.estimator is not None:
            return X
        return (X - center) / spread

    def _default(self) -> Any:
        raise NotImplementedError

    def predict(self, X: Any) -> np.ndarray:
        """Predict with the fitted estimator.

        Args:
            X: inputs, [m, d].

        Returns:
            [m].
        """
        check_is_fitted(self)
        return self.estimator_.predict(self._scale_columns(validate_xy(self, X, reset=False)))


class LocalVarianceClassifier(ClassifierMixin, _LocalVariance):
    """A classifier that learns most from where labels change from neighbour to neighbour.

    Fitting weights the samples by the local variance of their labels (`local_variance_weights`,
    METHODS §5) and fits a clone of `estimator` to them. Weights are handed over with a mean of 1:
    estimators that add a penalty to C Σ_i w_i ℓ_i read the sum of the weights as the amount of
    data, so that weights of sum 1 would make their penalty n times as strong. A user's own
    sample_weight is multiplied in and its sum kept; it does not move the neighbourhoods.

    Neighbours are those of X as your estimator gets it: scale the columns first, as in
    `make_pipeline(StandardScaler(), LocalVarianceClassifier(...))`; where they differ much a
    UserWarning says so. Both parameters can be searched
    as any others; that search must not see the test set.

    Args:
        estimator: anything whose fit takes sample_weight; None: logistic regression of standardised
            columns, whose neighbours count. A skorch net takes it through `SampleWeightMixin`.
        n_neighbors: k, the point itself included.
        max_ratio: m, the heaviest weight over the lightest.
        search: how neighbours are found, as for `local_variance_weights`.

    Attributes:
        classes_: the labels.
        estimator_: the fitted clone.
        sample_weight_: [n], what it was given.
        n_features_in_: d.
    """

    def _read(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        X, self.classes_, label = validate_classes(self, X, y, ensure_min_samples=2)
        return X, self.classes_[label], label

    @available_if(_estimator_has("predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the fitted estimator's probability of each class.

        Args:
            X: inputs, [m, d].

        Returns:
            [m, n_classes].
        """
        check_is_fitted(self)
        return self.estimator_.predict_proba(self._scale_columns(validate_xy(self, X, reset=False)))

    @available_if(_estimator_has("decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the fitted estimator's decision values.

        Args:
            X: inputs, [m, d].

        Returns:
            [m] for two classes, else [m, n_classes].
        """
        check_is_fitted(self)
        return self.estimator_.decision_function(
            self._scale_columns(validate_xy(self, X, reset=False))
        )

    def _default(self) -> Any:
        return LogisticRegression(max_iter=1000)


class LocalVarianceRegressor(RegressorMixin, _LocalVariance):
    """A regressor that learns most from where targets change from neighbour to neighbour.

    As `LocalVarianceClassifier`, also its parameters and attributes, but for `classes_`; the
    variance is that of the numbers themselves, the default estimator ridge regression. A linear
    model that least squares already fits as well as it can is not improved by any weighting on
    average (Boston Housing in `bench/papers/README.md`); try it on held-out samples.
    """

    def _read(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        X, y = validate_xy(self, X, y, y_numeric=True, ensure_min_samples=2)
        y = y.astype(np.float64)
        return X, y, y

    def _default(self) -> Any:
        return Ridge()
