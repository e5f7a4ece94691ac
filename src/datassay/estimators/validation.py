"""Validate X and y in every estimator, on all supported versions of scikit-learn."""

from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, column_or_1d  # pyrefly: ignore[missing-module-attribute] (old stubs)

from datassay.errors import DataError


def validate_xy(estimator: Any, X: Any, y: Any = None, *, reset: bool = True, **rules: Any) -> Any:
    """Return X, [n, d], checked to be finite numbers, and y, [n], if it is given.

    reset: True while fitting; False checks that X has the columns of the fit, and ignores y.
    rules: further ones of scikit-learn's `check_X_y`.
    """
    try:
        from sklearn.utils.validation import validate_data  # pyrefly: ignore[missing-module-attribute] (old stubs)
    except ImportError:  # scikit-learn below 1.6
        arrays = estimator._validate_data(
            X, y if reset else "no_validation", reset=reset, dtype="numeric", **rules
        )
    else:
        targets = {"y": y} if reset else {}
        arrays = validate_data(estimator, X, reset=reset, dtype="numeric", **targets, **rules)
    if not reset or y is None:
        return arrays
    return arrays[0], column_or_1d(arrays[1], warn=True)


def validate_classes(
    estimator: Any, X: Any, y: Any, **rules: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X [n, d], the classes [k], and each sample's class index [n], all checked."""
    X, y = validate_xy(estimator, X, y, **rules)
    check_classification_targets(y)
    classes, label = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise DataError(
            f"y must hold at least 2 classes; got 1 class, {classes.tolist()[0]!r}. Add others."
        )
    return X, classes, label


def validate_part(estimator: Any, X: Any, y: Any, *, is_first: bool, **rules: Any) -> Any:
    """Return one part's X and y, checked; against the first part's rules if it is a later one."""
    if is_first:
        return validate_xy(estimator, X, y, **rules)
    X = validate_xy(estimator, X, reset=False)
    y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    return X, y


def checked_weights(sample_weight: Any, X: np.ndarray) -> np.ndarray:
    """Return the weights as [n] float64; None is one each.

    Raises:
        DataError: a weight is negative, or all are 0.
    """
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if not ((weight >= 0).all() and weight.sum() > 0):
        raise DataError(
            "sample_weight must not be negative and not all 0; got values from "
            f"{weight.min():g} to {weight.max():g}."
        )
    return weight


def as_floats(X: np.ndarray) -> np.ndarray:
    """Return float32 as it is, everything else as float64."""
    if X.dtype == np.float32:
        return X
    return X.astype(np.float64)
