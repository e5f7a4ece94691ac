"""How alike samples are to a reviewer: sums over groups of samples that share a deviation.

The log odds of a wrong label deviate from what the run said by f ~ N(0, K), with
K_ij = Σ_t s_t² [code_ti = code_tj] ⟨value_ti, value_tj⟩.
A term t with one code and value 1 is a shift of all; with the given class as code, a shift for each
class; with places as values, a deviation that is alike where samples are alike. Products with K
are sums by code: no [n, n] matrix is formed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array

from datassay.results import result

Sums = list[Float[np.ndarray, "_ _"]]  # of each term, [codes, r]


@result
class Term:
    """One kind of deviation that samples share.

    Attributes:
        spread: s, nats, its standard deviation.
        codes: who shares it, [n]; small integers.
        values: how strongly, [n, r].
    """

    spread: float
    codes: Int[np.ndarray, " n"]
    values: Float[np.ndarray, "n r"]


def covariance(terms: Sequence[Term], rows: Int[np.ndarray, " m"]) -> Float[np.ndarray, "m m"]:
    """K between some samples.

    Args:
        terms: of K.
        rows: the samples.

    Returns:
        K[rows, rows].

    Cost: m² r operations a term.
    """
    total = np.zeros((len(rows), len(rows)))
    for term in terms:
        codes, values = term.codes[rows], term.values[rows]
        total += term.spread**2 * (codes[:, None] == codes) * (values @ values.T)
    return total


def sums_by_code(
    terms: Sequence[Term], rows: Int[np.ndarray, " m"], weights: Float[np.ndarray, " m"]
) -> Sums:
    """What K w needs of weighted samples.

    Args:
        terms: of K.
        rows: the samples.
        weights: w, theirs.

    Returns:
        For each term Σ_i w_i value_i over the samples of each code.

    Cost: m r operations a term.
    """
    sums = []
    for term in terms:
        codes, size = term.codes[rows], int(term.codes.max(initial=0)) + 1
        shape = (size, len(rows))
        by_code = csr_array((weights, (codes, np.arange(len(rows)))), shape)
        sums.append(by_code @ term.values[rows])
    return sums


def product(
    terms: Sequence[Term], sums: Sums, rows: Int[np.ndarray, " m"] | slice
) -> Float[np.ndarray, " m"]:
    """K w at some samples.

    Args:
        terms: of K.
        sums: of the weighted samples.
        rows: where it is wanted.

    Returns:
        Σ_t s_t² ⟨sums of its code, value⟩.

    Cost: m r operations a term.
    """
    parts = [
        term.spread**2 * np.einsum("mr,mr->m", each[term.codes[rows]], term.values[rows])
        for term, each in zip(terms, sums, strict=True)
    ]
    return np.sum(parts, axis=0)


def quadratic(terms: Sequence[Term], sums: Sums) -> float:
    """The form wᵀ K w.

    Args:
        terms: of K.
        sums: of the weighted samples.

    Returns:
        Σ_t s_t² |sums|².
    """
    return sum(
        term.spread**2 * float(np.square(each).sum())
        for term, each in zip(terms, sums, strict=True)
    )
