"""Validate X and y in every estimator, on all supported versions of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from datassay.errors import DataError


def validated(estimator: Any, X: Any, y: Any = None, *, reset: bool = True, **rules: Any) -> Any:
    """Numbers in two dimensions, finite, as many columns as at the fit; X alone without y."""
    # y is not looked at where reset is False. rules: further ones of scikit-learn's `check_X_y`.
    try:
        from sklearn.utils.validation import validate_data  # pyrefly: ignore[missing-module-attribute] (old stubs)
    except ImportError:  # scikit-learn below 1.6
        checked = estimator._validate_data(
            X, y if reset else "no_validation", reset=reset, dtype="numeric", **rules
        )
    else:
        given = {} if not reset else {"y": y}
        checked = validate_data(estimator, X, reset=reset, dtype="numeric", **given, **rules)
    if not reset or y is None:
        return checked
    return checked[0], column_or_1d(checked[1], warn=True)


def validated_classes(
    estimator: Any, X: Any, y: Any, **rules: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labelled samples, as `validated`: X, the classes, and the class index of each sample."""
    X, y = validated(estimator, X, y, **rules)
    check_classification_targets(y)
    classes, label = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise DataError(f"y must hold at least 2 classes; got 1 class, {classes[0]!r}. Add others.")
    return X, classes, label


def validated_part(estimator: Any, X: Any, y: Any, *, first: bool, **rules: Any) -> Any:
    """A further part of the samples, as `validated`; the rules are those of the first part."""
    if first:
        return validated(estimator, X, y, **rules)
    X, y = validated(estimator, X, reset=False), column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    return X, y


def as_floats(X: np.ndarray) -> np.ndarray:
    """float32 as it is, everything else as float64."""
    return X if X.dtype == np.float32 else X.astype(np.float64)
