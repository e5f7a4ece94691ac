"""The features of a polynomial: all products of inputs, or products of neighbouring pixels."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations_with_replacement
from math import comb, factorial

import numpy as np
from jaxtyping import Float, Int

from datassay.data.arguments import checks_arguments
from datassay.errors import DataError, SettingError
from datassay.methods.polynomial.settings import Regression
from datassay.results import result
from datassay.rules import at_least

# 0.5 million features are a Gram matrix of 1 TB in float32: nothing here could use more.
MAX_FEATURES = 500_000


@result
class Monomials:
    """Distinct monomials of the inputs, each scaled by the root of its number of ordered copies.

    Attributes:
        terms: [p, k], indices of the inputs multiplied, ascending, padded in front by -1 (factor
            one). Feature 0 is the constant. Sorted by degree, then by inputs.
        scale: [p], root of the number of ordered products equal to the monomial (√2 for x₁x₂ and
            x₂x₁), so that minimum-norm and ridge fits equal those of the model with all of them.
        n_inputs: d.
        image_shape: rows, columns, where the input is an image; else None.
        window: side of the square that covers the pixels of one product, or None.
    """

    terms: Int[np.ndarray, "p k"]
    scale: Float[np.ndarray, " p"]
    n_inputs: int
    image_shape: tuple[int, int] | None = None
    window: int | None = None

    @property
    def n_features(self) -> int:
        """p, the constant included."""
        return len(self.terms)

    @property
    def degree(self) -> Int[np.ndarray, " p"]:
        """[p], of each monomial."""
        return (self.terms >= 0).sum(axis=1)

    def features(
        self,
        x: Float[np.ndarray, "n d"],
        *,
        keep: Int[np.ndarray, " kept"] | None = None,
        dtype: type[np.floating] = np.float64,
    ) -> Float[np.ndarray, "n p"]:
        """Compute the scaled monomials of some samples.

        Args:
            x: [n, d].
            keep: features to compute; None is all of them.
            dtype: of the products and the result.

        Returns:
            [n, p] or [n, kept], in Fortran order.

        Raises:
            DataError: x does not have d columns.

        Cost: n · p · k multiplications, 2 n · p values.
        """
        if x.shape[1] != self.n_inputs:
            raise DataError(
                f"x must have the {self.n_inputs} inputs the monomials were made for; got "
                f"{x.shape[1]}. Make new monomials for this data."
            )
        terms = self.terms
        scale = self.scale
        if keep is not None:
            terms = terms[keep]
            scale = scale[keep]
        scale = scale.astype(dtype)
        factors = np.ones((self.n_inputs + 1, len(x)), dtype=dtype)  # [d + 1, n]
        factors[:-1] = x.T
        product = factors[terms[:, 0]]  # -1 finds the row of ones  [p, n]
        product *= scale[:, None]
        for column in terms.T[1:]:
            product *= factors[column]
        return product.T


def all_monomials(n_inputs: int, degree: int) -> Monomials:
    """Return every monomial up to a degree.

    Args:
        n_inputs: d.
        degree: k.

    Returns:
        C(d + k, k) monomials.

    Raises:
        SettingError: the degree or d is less than 1, or the features are more than MAX_FEATURES.

    Source: S3 eq. (3.4), each multi-index once.
    """
    at_least("degree", degree, 1)
    at_least("n_inputs", n_inputs, 1)
    _check_count(comb(n_inputs + degree, degree))
    return _make_monomials(
        (combinations_with_replacement(range(n_inputs), t) for t in range(1, degree + 1)),
        n_inputs,
        degree,
    )


def local_monomials(
    image_shape: tuple[int, ...], degree: int = Regression.degree, window: int = 3
) -> Monomials:
    """Return the monomials of pixels that fit into one square window.

    Args:
        image_shape: rows, columns; an input is the image row by row.
        degree: k, the most pixels in a product (a pixel may occur more than once).
        window: side of the square, odd.

    Returns:
        The monomials: 10 155 for 28 x 28 pixels, degree 2, window 3.

    Raises:
        SettingError: the degree is less than 1, the window is even or larger than the image, or
            the features are more than MAX_FEATURES.

    Source: S3 eq. (3.13). Its 18 740 features hold both orders of each pair and no constant; its
    "L1 distance ≤ 4" means the same pairs only inside the window.
    """
    at_least("degree", degree, 1)
    height, width = _check_image(image_shape)
    if window < 1 or window % 2 == 0:
        raise SettingError(
            f"window must be odd and at least 1, so that it has a middle pixel; got {window}."
        )
    if window > min(height, width):
        raise SettingError(
            f"window must fit into the image of {height} x {width} pixels; got {window}."
        )
    _check_count(1 + sum(_count_local(height, width, window, t) for t in range(1, degree + 1)))
    by_degree = (
        (cells for shape in _list_shapes(window, t) for cells in _place(shape, height, width))
        for t in range(1, degree + 1)
    )
    return _make_monomials(by_degree, height * width, degree, (height, width), window)


@checks_arguments
def chosen_monomials(
    n_inputs: int, degree: int, window: int | None, image_shape: tuple[int, ...] | None
) -> Monomials:
    """Return all monomials of a degree, or those that fit into a window of an image."""
    if image_shape is None:
        if window is not None:
            raise SettingError(
                f"window needs image_shape, the rows and columns of an image; got window={window} "
                "alone. Give both, or neither."
            )
        return all_monomials(n_inputs, degree)
    if int(np.prod(image_shape)) != n_inputs:
        raise SettingError(
            f"image_shape needs one pixel per column of X, {n_inputs}; got {tuple(image_shape)}."
        )
    if window is None:
        return replace(all_monomials(n_inputs, degree), image_shape=_check_image(image_shape))
    return local_monomials(tuple(image_shape), degree, window)


def multiplicity(term: Iterable[int]) -> int:
    """Return the number of ordered products equal to a monomial, k! / Π α!."""
    inputs = [i for i in term if i >= 0]
    repeats = [factorial(inputs.count(i)) for i in set(inputs)]
    return factorial(len(inputs)) // int(np.prod(repeats, dtype=int))


def _make_monomials(
    by_degree: Iterable[Iterable[tuple[int, ...]]],
    n_inputs: int,
    degree: int,
    image_shape: tuple[int, int] | None = None,
    window: int | None = None,
) -> Monomials:
    """Return the monomials of these terms, sorted by degree, after the constant."""
    parts = [np.full((1, degree), -1)]
    for t, terms_of_degree in enumerate(by_degree, start=1):
        inputs = np.array(sorted(terms_of_degree), dtype=np.int64).reshape(-1, t)
        parts.append(np.pad(inputs, ((0, 0), (degree - t, 0)), constant_values=-1))
    terms = np.concatenate(parts)
    scale = np.sqrt([multiplicity(term) for term in terms.tolist()])
    return Monomials(terms, scale, n_inputs, image_shape, window)


Shape = tuple[tuple[int, int], ...]


def _list_shapes(window: int, degree: int) -> list[Shape]:
    """Return the offsets of pixels of each product that touches a window's top and left."""
    cells = [(row, column) for row in range(window) for column in range(window)]
    choices = combinations_with_replacement(cells, degree)
    return [
        shape
        for shape in choices
        if min(row for row, _ in shape) == 0 and min(column for _, column in shape) == 0
    ]


def _count_local(height: int, width: int, window: int, degree: int) -> int:
    """Return the number of products of a degree whose pixels fit into one window."""
    # The windows that cover one product form a rectangle of positions; its vertices minus edges
    # plus squares are 1 (Euler), so each product counts once.

    def n_inside(rows: int, columns: int) -> int:
        cells = rows * columns
        if cells:
            return comb(cells + degree - 1, degree)
        return 0

    down = height - window + 1
    across = width - window + 1
    return (
        down * across * n_inside(window, window)
        - (down - 1) * across * n_inside(window - 1, window)
        - down * (across - 1) * n_inside(window, window - 1)
        + (down - 1) * (across - 1) * n_inside(window - 1, window - 1)
    )


def _place(shape: Shape, height: int, width: int) -> Iterable[tuple[int, ...]]:
    """Yield the pixel indices of a product at each position in the image."""
    for row in range(height - max(r for r, _ in shape)):
        for column in range(width - max(c for _, c in shape)):
            yield tuple((row + r) * width + column + c for r, c in shape)


def _check_image(image_shape: tuple[int, ...]) -> tuple[int, int]:
    """Return height and width; raise unless both are sizes of a grey image."""
    if len(image_shape) != 2 or min(image_shape) < 1:
        raise SettingError(
            f"image_shape must be rows, columns of grey pixels, each at least 1; got "
            f"{tuple(image_shape)}. Make colour images grey, or leave window and image_shape out."
        )
    height, width = image_shape
    return int(height), int(width)


def _check_count(n_features: int) -> None:
    if n_features > MAX_FEATURES:
        raise SettingError(
            f"the polynomial must have at most {MAX_FEATURES:,} features; got {n_features:,}. "
            "Lower the degree, choose a window, or reduce the inputs first."
        )
