"""Minimum-norm fits to fewer samples than features, through their inner products."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.linalg import eigh, get_blas_funcs, get_lapack_funcs


def minimum_norm(
    features: Float[np.ndarray, "n k"], targets: Float[np.ndarray, "n q"]
) -> tuple[Float[np.ndarray, "k q"], int]:
    """Smallest coefficients among those of the best fit, features and targets minus their means.

    Args:
        features: [n, k]; n² k operations are cheap where n < k.
        targets: [n, q].

    Returns:
        Coefficients [k, q] in float64 (the constant is the mean target minus that of the features
        times them), and the rank of the features minus their mean.

    Cost: n² k + n³/3 operations; 9 n³ more where samples are linearly dependent.
    """
    n = len(features)
    (product,) = get_blas_funcs(("syrk",), (features,))
    kernel = product(1.0, features, lower=0).astype(np.float64)  # upper triangle
    kernel += np.triu(kernel, 1).T
    mean = kernel.mean(axis=0)
    kernel -= mean
    kernel -= mean[:, None] - mean.mean()
    weights, rank = _solve(kernel, targets - targets.mean(axis=0), n, features.dtype)
    # The weights of a centred kernel sum to 0: the features need not be centred.
    return features.T @ weights.astype(features.dtype) + np.zeros(1), rank


def _solve(
    kernel: np.ndarray, targets: np.ndarray, n: int, dtype: np.dtype
) -> tuple[np.ndarray, int]:
    scale = max(float(np.trace(kernel)) / n, np.finfo(np.float64).tiny)
    tolerance = n * np.finfo(dtype).eps
    # Centring makes (1, …, 1) a null vector, and targets have no share in it: fill it.
    full = np.asfortranarray(kernel + scale / n)
    norm = float(np.abs(full).sum(axis=0).max())
    factor, condition, solve = get_lapack_funcs(("potrf", "pocon", "potrs"), (full,))
    upper, failed = factor(full, lower=0, clean=0, overwrite_a=1)
    if not failed and condition(upper, norm, uplo="U")[0] > tolerance:
        return solve(upper, targets, lower=0)[0], n - 1
    values, vectors = eigh(kernel, driver="evd", check_finite=False)
    above = values > tolerance * max(values[-1], np.finfo(np.float64).tiny)
    found = vectors[:, above]
    return found @ ((found.T @ targets) / values[above, None]), int(above.sum())
