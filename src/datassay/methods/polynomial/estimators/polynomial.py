"""Least squares on products of inputs, as scikit-learn estimators."""

import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from datassay.data.scaling import column_units
from datassay.errors import DataError
from datassay.estimators.validation import as_floats, validate_classes, validate_part, validate_xy
from datassay.methods.polynomial.fit import (
    PolynomialFit,
    check_spread,
    fit_normal_equations,
    fit_polynomial,
    unlike_sizes,
)
from datassay.methods.polynomial.maps import CoefMaps, coef_maps
from datassay.methods.polynomial.model import Polynomial, in_user_units
from datassay.methods.polynomial.monomials import Monomials, chosen_monomials
from datassay.methods.polynomial.settings import Regression
from datassay.methods.polynomial.solvers.normal_equations import (
    NormalEquations,
    merge,
    normal_equations,
)


def _has_sums(estimator: Any) -> bool:
    return estimator.solver == "exact"


class _Polynomial(BaseEstimator):
    """Shared by classifier and regressor: parameters, the fit and its sums."""

    def __init__(  # scikit-learn passes anything here and checks in fit, and so do we
        self,
        degree: Any = Regression.degree,
        window: Any = None,
        image_shape: Any = None,
        *,
        solver: Any = Regression.solver,
        ridge: Any = Regression.ridge,
        n_batches: Any = Regression.n_batches,
        batch_size: Any = Regression.batch_size,
        precision: Any = Regression.precision,
        standardize: Any = True,
        random_state: Any = 0,
    ):
        self.degree = degree
        self.window = window
        self.image_shape = image_shape
        self.solver = solver
        self.ridge = ridge
        self.n_batches = n_batches
        self.batch_size = batch_size
        self.precision = precision
        self.standardize = standardize
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit all samples.

        Args:
            X: inputs, [n, d].
            y: labels or targets, [n].

        Returns:
            This estimator.

        Raises:
            DataError: one class only, targets that are all the same, or 1 sample.
            SettingError: a setting is out of range.
        """
        X, targets = self._read(X, y)
        self._fit_targets(as_floats(X), targets)
        return self

    def _read(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return X and the targets of the outputs, [n, k], checked."""
        raise NotImplementedError

    def _fit_targets(self, X: np.ndarray, targets: np.ndarray) -> None:
        """Fit targets, [n, k], by the solver that the user chose."""
        self._sums: NormalEquations | None = None
        self._solution: PolynomialFit | None = None
        if self.solver == "exact":
            check_spread(targets)
            self._solution = self._solve(self._add_samples(X, targets))
            return
        monomials = self._monomials(X)
        self._set_units(X)
        fit = fit_polynomial(
            self._scale_columns(X),
            targets,
            monomials,
            solver=self.solver,
            n_batches=self.n_batches,
            batch_size=self.batch_size,
            precision=self.precision,
            seed=self._seed(),
        )
        self._solution = self._keep(fit)

    def _solve(self, sums: NormalEquations) -> PolynomialFit:
        """Return the exact fit of the sums, in the user's units; warn if columns differ in size."""
        for note in unlike_sizes(sums):
            warnings.warn(note, UserWarning, stacklevel=3)
        return self._keep(fit_normal_equations(sums, self.ridge))

    def _keep(self, fit: PolynomialFit) -> PolynomialFit:
        """Store the fit of scaled columns for predictions; return it in the user's units."""
        self._of_scaled: Polynomial = fit.polynomial
        if not self.standardize:
            return fit
        return replace(fit, polynomial=in_user_units(fit.polynomial, *self._units))

    def _set_units(self, X: np.ndarray) -> None:
        self._units = column_units(X, is_image=self.image_shape is not None)

    def _scale_columns(self, X: np.ndarray) -> np.ndarray:
        center, spread = self._units
        if not self.standardize or not (center.any() or (spread != 1).any()):
            return X
        return ((X - center) / spread).astype(X.dtype)

    def _add_samples(self, X: np.ndarray, targets: np.ndarray) -> NormalEquations:
        """Return the sums over all samples given so far, with these added."""
        previous = getattr(self, "_sums", None)
        if previous is None:
            monomials = self._monomials(X)
            self._set_units(X)
            n_seen = 0
        else:
            monomials = previous.monomials
            n_seen = previous.n_samples
        sums = normal_equations(
            self._scale_columns(X),
            targets,
            monomials,
            precision=self.precision,
            seed=self._seed(),
            seen=n_seen,
        )
        if previous is not None:
            sums = merge(previous, sums)
        self._sums = sums
        self._solution = None
        return sums

    def _monomials(self, X: np.ndarray) -> Monomials:
        return chosen_monomials(X.shape[1], self.degree, self.window, self.image_shape)

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    @property
    def fit_(self) -> PolynomialFit:
        """The `PolynomialFit`: coefficients, the path of ridges, notes; solved when asked for."""
        check_is_fitted(self, "n_features_in_")
        if self._solution is None:
            assert self._sums is not None
            self._solution = self._solve(self._sums)
        return self._solution

    def coef_maps(self) -> CoefMaps:
        """Return the coefficients of degree 1 and 2 as pictures.

        Returns:
            One map per class (or one) and degree.

        Raises:
            SettingError: the inputs are no image.
        """
        return coef_maps(self.fit_.polynomial)

    def _compute_outputs(self, X: Any) -> np.ndarray:
        """Return the polynomial's outputs, [n, q]; the first call solves the normal equations."""
        check_is_fitted(self, "n_features_in_")
        X = as_floats(validate_xy(self, X, reset=False))
        self._solution = self.fit_
        return self._of_scaled.outputs(self._scale_columns(X))


class PolynomialClassifier(ClassifierMixin, _Polynomial):
    """Least squares on products of inputs, one output per class; the largest wins (S3, chapter 3).

    The fit is convex, repeatable, and every coefficient can be read (`coef_maps`). Outputs are
    fitted to 0 and 1 but are no probabilities, so there is no predict_proba: calibrate where they
    are needed (`CalibratedClassifierCV`).

    Columns are brought to mean 0 and standard deviation 1 before they are multiplied (an image's
    pixels divided by the largest), so that no unit changes the answer; coefficients are in the
    units of X. With many columns and no window the number of products grows as d^degree. The exact
    fit keeps its sums for `partial_fit`: p² numbers.

    Args:
        degree: most inputs in a product.
        window: side of a square, odd: only pixels that it covers are multiplied. None: all columns.
        image_shape: rows, columns of an image whose pixels are the columns of X, row by row.
        solver: "exact" fits all samples at once; "batched" averages minimum-norm fits to random
            batches, which needs memory for one batch only.
        ridge: of the exact fit, added to the sum of squares as ridge ‖β‖²; "auto" is chosen by
            leave-one-out errors; 0 is the minimum norm. The constant is not penalised.
        n_batches: of the batched fit.
        batch_size: of the batched fit; at most n.
        precision: of the features' products: "auto", "float32", "float64" or "bfloat16".
        standardize: False multiplies columns as they are, as S3 does: units then decide what the
            ridge takes away.
        random_state: seed or generator of the batches and of the samples left out for the ridge.

    Attributes:
        classes_: the labels.
        fit_: the `PolynomialFit`, its polynomial in the units of X, its ridge of scaled columns.
        n_features_in_: d.
    """

    def _read(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        X, self.classes_, label = validate_classes(self, X, y)
        return X, np.eye(len(self.classes_))[label]

    @available_if(_has_sums)
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> "PolynomialClassifier":
        """Add samples to the sums, in the units that the first part had.

        With standardize=False the fit is that of all samples at once. Solving waits until a
        prediction or `fit_` is asked for. Only with solver="exact".

        Args:
            X: inputs, [n, d].
            y: labels, [n].
            classes: all labels there will be; needed in the first call.

        Returns:
            This estimator.

        Raises:
            DataError: no classes in the first call, or a label that is none of them.
            SettingError: a setting is out of range.
        """
        is_first = not hasattr(self, "classes_")
        X, y = validate_part(self, X, y, is_first=is_first)
        check_classification_targets(y)
        if is_first and classes is None:
            raise DataError("classes must name every label in the first call of partial_fit.")
        if is_first:
            all_classes = np.unique(classes)
        else:
            all_classes = self.classes_
        label = np.searchsorted(all_classes, y).clip(max=len(all_classes) - 1)
        if (all_classes[label] != y).any():
            raise DataError(
                f"y must hold labels among the classes {list(all_classes)}; got others. Name all "
                "classes in the first call."
            )
        self._add_samples(as_floats(X), np.eye(len(all_classes))[label])
        self.classes_ = all_classes
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the outputs.

        Args:
            X: inputs, [m, d].

        Returns:
            [m, n_classes], fitted to 1 at the sample's class and 0 elsewhere; for two classes [m],
            the second's minus the first's.
        """
        outputs = self._compute_outputs(X)
        if len(self.classes_) == 2:
            return outputs[:, 1] - outputs[:, 0]
        return outputs

    def predict(self, X: Any) -> np.ndarray:
        """Return the label with the largest output.

        Args:
            X: inputs, [m, d].

        Returns:
            [m].
        """
        class_idx = self._compute_outputs(X).argmax(axis=1)
        return self.classes_[class_idx]


class PolynomialRegressor(RegressorMixin, _Polynomial):
    """Least squares on products of inputs (S3, chapter 3); parameters as `PolynomialClassifier`'s.

    Attributes:
        fit_: the `PolynomialFit`, its polynomial in the units of X, its ridge of scaled columns.
        n_features_in_: d.
    """

    def _read(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        X, y = validate_xy(self, X, y, y_numeric=True, ensure_min_samples=2)
        return X, y.astype(np.float64)[:, None]

    @available_if(_has_sums)
    def partial_fit(self, X: Any, y: Any) -> "PolynomialRegressor":
        """Add samples to the sums, as `PolynomialClassifier.partial_fit`.

        Args:
            X: inputs, [n, d].
            y: targets, [n].

        Returns:
            This estimator.
        """
        is_first = not hasattr(self, "n_features_in_")
        X, y = validate_part(self, X, y, is_first=is_first, y_numeric=True)
        self._add_samples(as_floats(X), y.astype(np.float64)[:, None])
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predict the target.

        Args:
            X: inputs, [m, d].

        Returns:
            [m].
        """
        return self._compute_outputs(X)[:, 0]
