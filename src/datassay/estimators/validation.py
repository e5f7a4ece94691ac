"""What every estimator checks of X and y, on all versions of scikit-learn allowed."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import column_or_1d


def validated(estimator: Any, X: Any, y: Any = None, *, reset: bool = True, **rules: Any) -> Any:
    """Numbers in two dimensions, finite, as many columns as at the fit.

    Args:
        estimator: notes the columns' number and names.
        X: inputs, [n, d].
        y: labels or targets, [n]; None for a transformer; not looked at where reset is False.
        reset: True in fit, False in predict.
        rules: further ones of scikit-learn's `check_X_y`.

    Returns:
        X and y, or X alone where reset is False or y is None.
    """
    try:
        from sklearn.utils.validation import validate_data
    except ImportError:  # scikit-learn below 1.6
        found = estimator._validate_data(
            X, y if reset else "no_validation", reset=reset, dtype="numeric", **rules
        )
    else:
        given = {} if not reset else {"y": y}
        found = validate_data(estimator, X, reset=reset, dtype="numeric", **given, **rules)
    if not reset or y is None:
        return found
    return found[0], column_or_1d(found[1], warn=True)
