"""Coefficients of a polynomial of images, drawn where they lie in the image."""

import numpy as np
from jaxtyping import Float

from datassay.errors import SettingError
from datassay.methods.polynomial.model import Polynomial
from datassay.results import result


@result
class CoefMaps:
    """Coefficients of single pixels and of pairs of pixels, by position in the image.

    Attributes:
        degree_1: [q, H, W], the coefficient of each pixel, target unit over input unit. Positive:
            a brighter pixel raises the output.
        degree_2: [q, 2H−1, 2W−1], on a grid of half pixels: at (r, c) the sum of the coefficients
            of all pairs whose middle is (r / 2, c / 2) in pixels, target unit over input unit
            squared. Squares of a pixel count as pairs.
    """

    degree_1: Float[np.ndarray, "q height width"]
    degree_2: Float[np.ndarray, "q tall wide"]


def coef_maps(polynomial: Polynomial) -> CoefMaps:
    """Return the coefficients of degree 1 and 2 as maps, one per output.

    B(r, c) = Σ β_ij over the pairs of pixels i ≤ j whose rows sum to r and whose columns to c.

    Args:
        polynomial: of images.

    Returns:
        The maps; they leave out the constant and products of higher degree.

    Raises:
        SettingError: the inputs are not an image.

    Cost: p · q additions.
    Source: S3 §3.6.1, eqs. (3.27) and (3.28). β belongs to each product written once; the sum over
    both orders in (3.28) is the same. Deviates: (3.28) rounds the middle down to a whole pixel,
    which moves three of four kinds of pairs by half a pixel; here each middle has its own position.
    """
    monomials = polynomial.monomials
    if monomials.image_shape is None:
        raise SettingError(
            f"coefficient maps need inputs that are an image; got {monomials.n_inputs} inputs "
            "without a shape. Name image_shape when the monomials are made."
        )
    height, width = monomials.image_shape
    coef = polynomial.monomial_coef
    degree = monomials.degree
    q = coef.shape[1]
    by_pixel = np.zeros((q, height * width))
    by_pixel[:, monomials.terms[degree == 1, -1]] = coef[degree == 1].T
    by_middle = np.zeros((q, 2 * height - 1, 2 * width - 1))
    pairs = monomials.terms[degree == 2][:, -2:]  # [pairs, 2], or none in a polynomial of degree 1
    if len(pairs):
        rows = (pairs // width).sum(axis=1)
        columns = (pairs % width).sum(axis=1)
        position = rows * (2 * width - 1) + columns
        np.add.at(by_middle.reshape(q, -1).T, position, coef[degree == 2])
    return CoefMaps(by_pixel.reshape(q, height, width), by_middle)
