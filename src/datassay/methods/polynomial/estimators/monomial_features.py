"""Products of columns as features, for scikit-learn's pipelines."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted  # pyrefly: ignore[missing-module-attribute] (old stubs)

from datassay.estimators.validation import as_floats, validate_xy
from datassay.methods.polynomial.monomials import chosen_monomials
from datassay.methods.polynomial.settings import Regression
from datassay.optional import text_if


class MonomialFeatures(TransformerMixin, BaseEstimator):
    """Distinct products of columns, times the root of how many ordered products each stands for.

    Without a window these are scikit-learn's `PolynomialFeatures` with that weight; with one only
    pixels that a square of that side covers are multiplied, which keeps images tractable. The
    weights make a ridge or minimum-norm fit that of the model with every ordered product (S3).

    Args:
        degree: most columns in a product.
        window: side of the square, odd; None multiplies all columns with each other.
        image_shape: rows, columns of an image whose pixels are the columns of X, row by row.
        scaled: False leaves the weights out.

    Attributes:
        monomials_: the `Monomials`.
        n_features_in_: d.
    """

    def __init__(
        self,
        degree: Any = Regression.degree,
        window: Any = None,
        image_shape: Any = None,
        scaled: Any = True,
    ):
        self.degree = degree
        self.window = window
        self.image_shape = image_shape
        self.scaled = scaled

    def fit(self, X: Any, y: Any = None) -> "MonomialFeatures":
        """Find the products; of X only the number of columns counts.

        Args:
            X: inputs, [n, d].
            y: ignored.

        Returns:
            This transformer.

        Raises:
            SettingError: degree, window or image_shape is out of range, or they do not fit X.
        """
        X = validate_xy(self, X)
        self.monomials_ = chosen_monomials(X.shape[1], self.degree, self.window, self.image_shape)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Compute the products.

        Args:
            X: inputs, [m, d].

        Returns:
            [m, p], in X's precision where that is float32, else in float64.
        """
        check_is_fitted(self)
        X = as_floats(validate_xy(self, X, reset=False))
        features = self.monomials_.features(X, dtype=X.dtype.type)
        if self.scaled:
            return features
        return features / self.monomials_.scale.astype(X.dtype)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return names such as "x0 x3" and "x1^2".

        Args:
            input_features: names of the columns; None: those of the fit, or x0, x1, ...

        Returns:
            [p], strings.
        """
        check_is_fitted(self)
        names = np.asarray(_check_feature_names_in(self, input_features))
        return np.array([_name(term, names) for term in self.monomials_.terms], dtype=object)


def _name(term: np.ndarray, names: np.ndarray) -> str:
    inputs, powers = np.unique(term[term >= 0], return_counts=True)
    factors = [str(names[i]) + text_if(k > 1, f"^{k}") for i, k in zip(inputs, powers, strict=True)]
    return " ".join(factors) or "1"
