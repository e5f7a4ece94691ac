"""Encode images by the cosine coefficients that are among the largest in many images.

Principal components are scikit-learn's: `make_pipeline(PCA(70), PolynomialClassifier(...))`.
"""

from math import prod

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.fft import dctn, idctn

from datassay.errors import DataError
from datassay.results import result
from datassay.rules import at_least, fraction

CHUNK = 4000  # images per chunk


@result
class CosineEncoding:
    """The coordinates of the discrete cosine transform that encode an image.

    Attributes:
        image_shape: rows, columns; d is their product.
        share: share of an image's coefficients, the largest, that is kept; the others are 0.
        frequency: [d], share of the images in which a coordinate is kept.
        coordinates: [k], coordinates of an encoded image, ascending.
    """

    image_shape: tuple[int, int]
    share: float
    frequency: Float[np.ndarray, " d"]
    coordinates: Int[np.ndarray, " k"]

    @property
    def factor(self) -> float:
        """Coordinates kept over all, k / d: S3's encoding factor."""
        return len(self.coordinates) / len(self.frequency)

    def encode(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        """Encode images; coefficients that are small in their image are 0.

        Args:
            x: [n, d], images row by row.

        Returns:
            [n, k], unit of x, dtype of x.

        Raises:
            DataError: x does not have d columns.
        """
        self._check(x.shape[1], len(self.frequency), "pixels")
        parts = [
            self._large_coefficients(x[i : i + CHUNK])[:, self.coordinates]
            for i in range(0, max(len(x), 1), CHUNK)
        ]
        return np.concatenate(parts)

    def decode(self, code: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n d"]:
        """Return the images with these coefficients, all others 0.

        Args:
            code: [n, k].

        Returns:
            [n, d]; values may leave the range of the encoded images.

        Raises:
            DataError: code does not have k columns.
        """
        self._check(code.shape[1], len(self.coordinates), "coefficients")
        full = np.zeros((len(code), len(self.frequency)), dtype=code.dtype)
        full[:, self.coordinates] = code
        images = idctn(full.reshape(-1, *self.image_shape), axes=(1, 2), norm="ortho")
        return np.asarray(images).reshape(full.shape)

    def _large_coefficients(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Return each image's coefficients, all but its largest set to 0."""
        coef = cosine_coefficients(x, self.image_shape)
        return np.where(largest(coef, self.share), coef, 0)

    def _check(self, got: int, expected: int, noun: str) -> None:
        if got != expected:
            raise DataError(
                f"each image must have the {expected} {noun} of this encoding; got {got}. Make a "
                "new encoding for these images."
            )


def cosine_encoding(
    x: Float[np.ndarray, "n d"],
    image_shape: tuple[int, int],
    *,
    share: float = 0.1,
    min_frequency: float = 0.05,
    n_coordinates: int | None = None,
) -> CosineEncoding:
    """Choose the coordinates that are among the largest in enough images.

    Args:
        x: [n, d], images row by row.
        image_shape: rows, columns.
        share: share of an image's d coefficients, the largest in magnitude, that is kept:
            round(share · d), at least 1. 1 makes the encoding linear.
        min_frequency: share of the images in which a coordinate must be kept.
        n_coordinates: most coordinates, the most frequent first; None is no limit.

    Returns:
        The encoding.

    Raises:
        SettingError: a share is outside (0, 1], or n_coordinates is below 1.
        DataError: there is no image, images have another shape, or no coordinate is frequent
            enough.

    Cost: n · d · log d operations.
    Source: S3 §3.3.4, eq. (3.7) and Table 3.4. Deviates: exactly round(share · d) coefficients of
    each image, where S3 has "approximately 10 %" by an unpublished threshold.
    """
    for name, value in (("share", share), ("min_frequency", min_frequency)):
        fraction(name, value)
    if n_coordinates is not None:
        at_least("n_coordinates", n_coordinates, 1, why=", or None")
    if not len(x) or x.shape[1] != prod(image_shape):
        raise DataError(
            f"x must hold images of {image_shape[0]} x {image_shape[1]} pixels; got shape "
            f"{list(x.shape)}. Give the images' own image_shape."
        )
    n_images = np.zeros(x.shape[1])
    for start in range(0, len(x), CHUNK):
        coef = cosine_coefficients(x[start : start + CHUNK], image_shape)
        n_images += largest(coef, share).sum(axis=0)
    frequency = n_images / len(x)
    order = np.argsort(-frequency, kind="stable")
    order = order[frequency[order] >= min_frequency][:n_coordinates]
    if not len(order):
        raise DataError(
            f"some coordinate must be kept in at least {min_frequency} of the images; the most "
            f"frequent is kept in {frequency.max():.3g}. Lower min_frequency or raise share."
        )
    return CosineEncoding(image_shape, share, frequency, np.sort(order))


def cosine_coefficients(
    x: Float[np.ndarray, "n d"], image_shape: tuple[int, int]
) -> Float[np.ndarray, "n d"]:
    """Return the orthonormal 2-D cosine transform (type II) of images, lowest first."""
    coef = dctn(x.reshape(-1, *image_shape), axes=(1, 2), norm="ortho")
    return np.asarray(coef).reshape(x.shape)


def largest(coef: Float[np.ndarray, "n d"], share: float) -> Bool[np.ndarray, "n d"]:
    """Return a mask of the largest coefficients of each image.

    Args:
        coef: [n, d].
        share: in (0, 1].

    Returns:
        [n, d]; round(share · d) are true in each row, at least 1, except coefficients that are 0.
    """
    d = coef.shape[1]
    n_largest = max(1, round(share * d))
    magnitude = np.abs(coef)
    is_largest = magnitude > 0
    if n_largest < d:
        smallest = np.argpartition(magnitude, d - n_largest, axis=1)[:, : d - n_largest]
        np.put_along_axis(is_largest, smallest, False, axis=1)
    return is_largest
