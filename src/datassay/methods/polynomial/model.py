"""A fitted polynomial: features, coefficients and predictions."""

from dataclasses import replace
from itertools import product

import numpy as np
from jaxtyping import Float

from datassay.methods.polynomial.monomials import Monomials
from datassay.results import result

CHUNK = 2000  # samples per chunk of features


@result
class Polynomial:
    """A polynomial: outputs = features of `monomials` times `coef`.

    Attributes:
        monomials: the p features.
        coef: [p, q], coefficients of the scaled features, target unit over feature unit. Row 0 is
            the constant.
    """

    monomials: Monomials
    coef: Float[np.ndarray, "p q"]

    @property
    def monomial_coef(self) -> Float[np.ndarray, "p q"]:
        """[p, q], coefficients of the unscaled monomials: β of Σ_α β_α x^α."""
        return self.coef * self.monomials.scale[:, None]

    def outputs(
        self, x: Float[np.ndarray, "n d"], *, dtype: type[np.floating] = np.float64
    ) -> Float[np.ndarray, "n q"]:
        """Predict, `CHUNK` samples at a time.

        Args:
            x: [n, d].
            dtype: of the features and the products.

        Returns:
            [n, q].

        Raises:
            DataError: x does not have d columns.

        Cost: 2 n · p · q operations, plus the features.
        """
        coef = self.coef.astype(dtype)
        parts = [
            self.monomials.features(x[i : i + CHUNK], dtype=dtype) @ coef
            for i in range(0, max(len(x), 1), CHUNK)
        ]
        return np.concatenate(parts)


def are_classes(targets: Float[np.ndarray, "n q"]) -> bool:
    """Return whether targets are one-hot classes: a single 1 among zeros in every row."""
    return targets.shape[1] > 1 and bool(
        ((targets == 0) | (targets == 1)).all() and (targets.sum(axis=1) == 1).all()
    )


def in_user_units(
    polynomial: Polynomial, center: Float[np.ndarray, " d"], spread: Float[np.ndarray, " d"]
) -> Polynomial:
    """Return the polynomial q with q(x) = p((x − center) / spread), where p is `polynomial`.

    Every product of (x_i − center_i) / spread_i is multiplied out; exact, but at centers far from 0
    terms cancel: predict by `polynomial` itself.
    """
    terms = polynomial.monomials.terms
    scale = polynomial.monomials.scale[:, None]
    row_of = {tuple(term): row for row, term in enumerate(terms.tolist())}
    # (x − center) / spread = slope x + offset. A term shorter than k is padded with input −1 (the
    # last entry), whose offset is 1.
    slope = np.append(1 / spread, 1.0)[terms]  # [p, k]
    offset = np.append(-center / spread, 1.0)[terms]
    new_coef = np.zeros_like(polynomial.coef)
    # Each factor of a product gives either slope x or its offset.
    for gives_input in product((True, False), repeat=terms.shape[1]):
        share = np.where(gives_input, slope, offset).prod(axis=1)
        # Padding always gives its offset, so that a shorter term is counted once.
        share[((terms < 0) & np.array(gives_input)).any(axis=1)] = 0
        rows = np.flatnonzero(share)
        new_terms = np.sort(np.where(gives_input, terms[rows], -1), axis=1)
        new_rows = [row_of[tuple(term)] for term in new_terms.tolist()]
        np.add.at(new_coef, new_rows, share[rows, None] * polynomial.monomial_coef[rows])
    return replace(polynomial, coef=new_coef / scale)
