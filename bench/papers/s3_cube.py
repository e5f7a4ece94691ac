"""S3 §3.2: networks with filters on inputs of ±1, and polynomial regression on such inputs.

On ±1 the square of an input is 1, so that many monomials are one function: the product of the
inputs that are in it an odd number of times. Of C(d + k, k) monomials Σ_{r≤k} C(d, r) functions are
left. Least squares of minimum norm over all d^t ordered products of degree t is least squares of
minimum norm over these functions, each times the root of its number of copies; its kernel is
Σ_t (x·z)^t. Where there are more samples than functions, the copies change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh
from scipy.special import expit

from datassay.polynomial import Monomials

ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda u: np.maximum(u, 0.0),
    "sigmoid": expit,
}
SMALL = 500  # systems up to here by eigenvalues, so that a singular one is solved too


@dataclass(frozen=True)
class FilterNetwork:
    """Σ_i f(w_i · x[start_i : start_i + s]), weights N(0, 1), starts uniform, all b_i = 1."""

    activation: str
    d: int
    start: np.ndarray  # [m]
    weights: np.ndarray  # [m, s]

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """[n, d] to [n]."""
        dense = np.zeros((self.d, len(self.start)))
        for i, (a, w) in enumerate(zip(self.start, self.weights, strict=True)):
            dense[a : a + len(w), i] = w
        return ACTIVATIONS[self.activation](x @ dense).sum(1)

    def shares(self, degree: int) -> list[float]:
        """R² of the best polynomial of degree 1 to k over all 2^d inputs, by Walsh's transform."""
        s = self.weights.shape[1]
        bits = (np.arange(2**s)[:, None] >> np.arange(s)) & 1  # [2^s, s]
        values = ACTIVATIONS[self.activation]((1 - 2 * bits) @ self.weights.T)  # [2^s, m]
        for j in range(s):
            v = values.reshape(2 ** (s - 1 - j), 2, 2**j, -1)
            values = np.stack([v[:, 0] + v[:, 1], v[:, 0] - v[:, 1]], 1).reshape(2**s, -1)
        masks = (np.arange(2**s)[:, None] << self.start).ravel()  # which inputs are in the product
        sets, at = np.unique(masks, return_inverse=True)
        squared = np.bincount(at.ravel(), (values / 2**s).ravel()) ** 2
        size = np.array([int(mask).bit_count() for mask in sets])
        total = squared[size > 0].sum()
        return [squared[(size > 0) & (size <= t)].sum() / total for t in range(1, degree + 1)]


def network(activation: str, d: int, m: int, s: int, g: np.random.Generator) -> FilterNetwork:
    return FilterNetwork(activation, d, g.integers(0, d - s + 1, size=m), g.normal(size=(m, s)))


def cube(n: int, d: int, g: np.random.Generator) -> np.ndarray:
    """[n, d], ±1 with equal chances."""
    return 2.0 * g.integers(0, 2, size=(n, d)) - 1


def n_functions(d: int, degree: int) -> int:
    return sum(comb(d, r) for r in range(degree + 1))


def parities(d: int, degree: int) -> Monomials:
    """The distinct functions, scaled by the root of their copies among all ordered products."""
    copies, total = np.zeros(degree + 2), np.zeros(degree + 1)
    copies[0] = total[0] = 1.0  # of the empty product, by the number of odd inputs
    for _ in range(degree):
        one_more = np.zeros(degree + 2)
        for r in range(degree + 1):
            # One factor more turns an odd input even or an even one odd.
            one_more[r] = (copies[r - 1] * r if r else 0.0) + copies[r + 1] * (d - r)
        copies = one_more
        total += copies[: degree + 1]
    terms = [
        (-1,) * (degree - r) + chosen
        for r in range(degree + 1)
        for chosen in combinations(range(d), r)
    ]
    sizes = [r for r in range(degree + 1) for _ in range(comb(d, r))]
    # copies[r] counts ways to reach one set of r inputs, so nothing is divided by C(d, r).
    return Monomials(np.array(terms).reshape(-1, degree), np.sqrt(total)[sizes], d)


def r2(y: np.ndarray, found: np.ndarray) -> float:
    return 1 - float(((y - found) ** 2).mean() / y.var())


def fitted_r2(train, test, degree: int) -> tuple[float, float, float]:
    """R² of least squares of minimum norm: in sample, out of it, out of it by another norm.

    The constant is free in the first two; in the third it is a column whose coefficient counts.
    """
    (x, y), (x_test, y_test) = train, test
    if n_functions(x.shape[1], degree) <= len(x):
        monomials = parities(x.shape[1], degree)
        features, of_test = monomials.features(x), monomials.features(x_test)
        coef = _solved(features.T @ features, features.T @ y)
        outside = r2(y_test, of_test @ coef)
        return r2(y, features @ coef), outside, outside
    rows = np.unique(x, axis=0, return_index=True)[1]  # a repeated input says nothing new
    right = np.stack([y[rows], np.ones(len(rows))], axis=1)
    dual, of_ones = _solved(_kernel(x[rows], x[rows], degree), right).T
    constant = dual.sum() / of_ones.sum()
    free = dual - constant * of_ones
    near = _kernel(x_test, x[rows], degree)
    return (
        r2(y, _kernel(x, x[rows], degree) @ free + constant),
        r2(y_test, near @ free + constant),
        r2(y_test, near @ dual),
    )


def _kernel(x: np.ndarray, z: np.ndarray, degree: int) -> np.ndarray:
    inner = x @ z.T
    total = np.ones_like(inner)
    for _ in range(degree):  # Horner: powers of floats are slow
        total *= inner
        total += 1
    return total


def _solved(gram: np.ndarray, right: np.ndarray) -> np.ndarray:
    if len(gram) > SMALL:
        try:
            return cho_solve(cho_factor(gram), right)
        except LinAlgError:
            pass
    values, vectors = eigh(gram)
    keep = values > 1e-10 * values[-1]
    return vectors[:, keep] @ ((vectors[:, keep].T @ right).T / values[keep]).T
