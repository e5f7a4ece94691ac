"""Explanation of a polynomial's output: the part of each product and each input."""

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array

from datassay.methods.polynomial.model import Polynomial
from datassay.methods.polynomial.monomials import Monomials
from datassay.results import result
from datassay.rules import at_least


@result
class Contributions:
    """What each product adds to each output.

    Attributes:
        monomials: the products.
        value: [n, p, q], coefficient times product, target unit; the sum over p is the output.
            Product 0 is the constant.
    """

    monomials: Monomials
    value: Float[np.ndarray, "n p q"]

    @property
    def outputs(self) -> Float[np.ndarray, "n q"]:
        """[n, q], sums over all products."""
        return self.value.sum(axis=1)

    @property
    def constant(self) -> Float[np.ndarray, " q"]:
        """[q], the part that depends on no input."""
        if len(self.value):
            return self.value[0, 0]
        return np.zeros(self.value.shape[2])

    @property
    def by_degree(self) -> Float[np.ndarray, "n k q"]:
        """[n, k + 1, q], sums over the products of each degree, 0 to k."""
        degree = self.monomials.degree
        parts = [self.value[:, degree == t].sum(axis=1) for t in range(int(degree.max()) + 1)]
        return np.stack(parts, axis=1)

    @property
    def shares(self) -> Float[np.ndarray, "n d q"]:
        """[n, d, q], what each input adds, each product divided equally among its inputs.

        The sum over the inputs is the output minus the constant. These are the Shapley values of
        the inputs, a missing input being 0: black in an image, the mean of a standardised column.
        """
        share_matrix = _split_products(self.monomials)
        n, _, q = self.value.shape
        by_sample = [share_matrix @ value for value in self.value]
        if n:
            return np.stack(by_sample)
        return np.zeros((0, self.monomials.n_inputs, q))

    def top(self, sample: int, output: int, n_top: int = 10) -> Int[np.ndarray, " top"]:
        """Return the products that add most to one output of one sample.

        Args:
            sample: position among the samples.
            output: which output.
            n_top: how many.

        Returns:
            Indices into `monomials.terms`, largest magnitude first, without the constant and
            products that add 0.

        Raises:
            SettingError: n_top is less than 1.
        """
        at_least("n_top", n_top, 1)
        magnitude = np.abs(self.value[sample, :, output])
        magnitude[0] = 0
        order = np.argsort(-magnitude, kind="stable")[:n_top]
        return order[magnitude[order] > 0]


def contributions(polynomial: Polynomial, x: Float[np.ndarray, "n d"]) -> Contributions:
    """Split each output into what each product adds: its coefficient times its value.

    Args:
        polynomial: of p products of d inputs, for q outputs.
        x: [n, d]; few samples, because each takes p · q values.

    Returns:
        The parts, [n, p, q], which sum over the products to `polynomial.outputs(x)`.

    Raises:
        DataError: x does not have d columns.

    Cost: n · p · q multiplications and values, float64.
    Source: S3 eq. (3.27), term by term; the thesis reads coefficients only. The shares are
    Shapley values: a product is divided equally among its inputs, whatever their powers. Up to
    degree 2 integrated gradients from 0 are the same.
    """
    features = polynomial.monomials.features(x.astype(np.float64, copy=False))
    return Contributions(polynomial.monomials, features[:, :, None] * polynomial.coef)


def _split_products(monomials: Monomials) -> csr_array:
    """Return the share of each product that each of its inputs gets, [d, p]."""
    terms = monomials.terms
    p = monomials.n_features
    # Terms are sorted: a factor is the first of its input where it differs from the one before.
    is_first = np.diff(terms, axis=1, prepend=-1) != 0
    share = (is_first / np.maximum(is_first.sum(axis=1), 1)[:, None])[is_first]
    product = np.broadcast_to(np.arange(p)[:, None], terms.shape)[is_first]
    return csr_array((share, (terms[is_first], product)), shape=(monomials.n_inputs, p))
