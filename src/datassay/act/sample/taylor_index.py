"""How much a function changes around a point: the Taylor index Df of S0."""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial

import numpy as np
from jaxtyping import Float

from datassay.errors import SettingError


def taylor_terms(
    derivatives: Sequence[Float[np.ndarray, "N q ..."]],
    epsilon: float | Sequence[float] | Float[np.ndarray, " d"],
) -> Float[np.ndarray, "N n"]:
    """What each order adds to the Taylor index.

    Df_ε^n(x) = Σ_{1≤|k|≤n} ε^k ‖Vect(∂^k f(x))‖ / k!,  ‖·‖ the SQUARED L2 norm, over the outputs

    k = (k_1 … k_d) runs over the distinct multi-indices, k! = Π k_j! and ε^k = Π ε_j^{k_j}. A
    multi-index of order m stands for m!/k! equal entries of the derivative tensor T_m, so that the
    term of order m is also

    (1/m!) Σ_{i_1 … i_m} ε_{i_1} ⋯ ε_{i_m} ‖∂_{i_1} ⋯ ∂_{i_m} f‖²,

    for one ε: ε^m ‖T_m‖²_F / m!. This is how it is computed.

    Args:
        derivatives: T_1 … T_n as `derivatives` gives them, [N, q, d, …, d], unit f over x^m.
        epsilon: ε, a variance in units of x squared, one for all dimensions or one for each.

    Returns:
        The term of each order, in units of f squared. They sum to Df.

    Raises:
        SettingError: epsilon is not positive and finite, or neither one number nor d of them.

    Cost: N q d^n.
    Source: S0 eq. 2 and 6. Deviates where they print ‖ε‖^k, a power of the squared norm of a vector
    ε(1, …, 1), for which take d ε² here. As the variance of a Gaussian, as S0's App. B has ε for
    n = 2, Df is the variance of f(x + ε) to the terms that it keeps. ε only weighs the orders
    against each other.
    """
    dimensions = derivatives[0].shape[2]
    spread = checked_epsilon(epsilon, dimensions)
    terms = []
    for m, tensor in enumerate(derivatives, 1):
        squares = (tensor**2).sum(1)  # [N, d, …, d]
        for _ in range(m):
            squares = squares @ spread
        terms.append(squares / factorial(m))
    return np.stack(terms, 1)


def taylor_index(
    derivatives: Sequence[Float[np.ndarray, "N q ..."]],
    epsilon: float | Sequence[float] | Float[np.ndarray, " d"],
) -> Float[np.ndarray, " N"]:
    """The Taylor index Df_ε^n(x), units of f squared: the sum of `taylor_terms`, which see."""
    return taylor_terms(derivatives, epsilon).sum(1)


def checked_epsilon(
    epsilon: float | Sequence[float] | Float[np.ndarray, " d"], dimensions: int
) -> Float[np.ndarray, " d"]:
    """ε as one number a dimension.

    Args:
        epsilon: one, or d.
        dimensions: d.

    Returns:
        [d].

    Raises:
        SettingError: not positive and finite, or another number of them.
    """
    given = np.asarray(epsilon, dtype=float)
    if given.shape not in {(), (dimensions,)}:
        raise SettingError(
            f"epsilon must be one number, or one for each of {dimensions} dimensions; got shape "
            f"{list(given.shape)}."
        )
    if not (np.isfinite(given).all() and (given > 0).all()):
        raise SettingError(
            f"epsilon must be positive and finite; got {epsilon}. It is a variance in units of x "
            "squared; take 0.001 for inputs near 1."
        )
    return np.broadcast_to(given, dimensions).copy()
