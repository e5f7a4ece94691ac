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
    """Return in x the polynomial that is given in (x − center) / spread.

    Every product of (x_i − center_i) / spread_i is multiplied out; exact, but at centers far from 0
    terms cancel: predict by `polynomial` itself.
    """
    terms = polynomial.monomials.terms
    scale = polynomial.monomials.scale[:, None]
    row_of = {tuple(term): row for row, term in enumerate(terms.tolist())}
    factors = np.append(1 / spread, 1.0)[terms], np.append(-center / spread, 1.0)[terms]
    coef = np.zeros_like(polynomial.coef)
    coef_scaled = polynomial.monomial_coef
    for stays in product((True, False), repeat=terms.shape[1]):  # which factors give their input
        share = np.where(stays, *factors).prod(axis=1)
        # Where a term is shorter, one of the choices counts for its padding.
        share[((terms < 0) & np.array(stays)).any(axis=1)] = 0
        rows = np.flatnonzero(share)
        shorter = np.sort(np.where(stays, terms[rows], -1), axis=1)
        targets = [row_of[tuple(term)] for term in shorter.tolist()]
        np.add.at(coef, targets, share[rows, None] * coef_scaled[rows])
    return replace(polynomial, coef=coef / scale)
