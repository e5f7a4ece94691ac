"""The cosine encoding of images as a scikit-learn transformer."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from datassay.estimators.validation import as_floats, validate_xy
from datassay.methods.polynomial.encodings import cosine_encoding


class CosineEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Images as those coefficients of cosines that are large in many of them (S3 §3.3.4).

    In front of a polynomial, as PCA; its coordinates are frequencies, the same for every data set.

    Args:
        image_shape: rows, columns of the images that X holds row by row; None: a square where the
            number of columns is one, else a single row.
        share: of each image's coefficients, the largest, that are not set to 0; 1 is linear.
        min_frequency: share of the training images in which a coordinate must be kept.
        n_coordinates: at most so many, the most frequent; None is no limit.

    Attributes:
        encoding_: the `CosineEncoding`: coordinates, their frequency, the factor.
        n_features_in_: d.
    """

    def __init__(
        self,
        *,
        image_shape: Any = None,
        share: Any = 0.1,
        min_frequency: Any = 0.05,
        n_coordinates: Any = None,
    ):
        self.image_shape = image_shape
        self.share = share
        self.min_frequency = min_frequency
        self.n_coordinates = n_coordinates

    def fit(self, X: Any, y: Any = None) -> "CosineEncoder":
        """Find the coordinates.

        Args:
            X: images row by row, [n, d].
            y: not used.

        Returns:
            Itself.

        Raises:
            SettingError: a setting is outside its rule.
            DataError: images of another shape, or no coordinate is frequent enough.
        """
        x = as_floats(validate_xy(self, X))
        self.encoding_ = cosine_encoding(
            x,
            _choose_shape(x.shape[1], self.image_shape),
            share=self.share,
            min_frequency=self.min_frequency,
            n_coordinates=self.n_coordinates,
        )
        self._n_features_out = len(self.encoding_.coordinates)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Encode images.

        Args:
            X: [n, d].

        Returns:
            [n, k], in X's own unit.
        """
        check_is_fitted(self)
        return self.encoding_.encode(as_floats(validate_xy(self, X, reset=False)))

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Return the images that have these coefficients and 0 elsewhere.

        Args:
            X: [n, k].

        Returns:
            [n, d].

        Raises:
            DataError: X has not k columns.
        """
        check_is_fitted(self)
        return self.encoding_.decode(as_floats(check_array(X)))


def _choose_shape(d: int, image_shape: Any) -> tuple[int, int]:
    """Return rows and columns of d pixels: as given, else a square, else one row."""
    if image_shape is not None:
        rows, columns = image_shape
        return int(rows), int(columns)
    side = round(d**0.5)
    if side * side == d:
        return (side, side)
    return (1, d)
