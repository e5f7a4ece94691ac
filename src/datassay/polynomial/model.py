"""A fitted polynomial: features, coefficients and predictions."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from datassay.polynomial.monomials import Monomials
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
