"""Sweeps, fitted exponents and relative errors of experiments."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int


def spread_counts(first: float, last: float, count: int) -> Int[np.ndarray, " m"]:
    """Whole numbers, evenly spaced in the logarithm.

    Args:
        first: the smallest, positive.
        last: the largest.
        count: how many at most; duplicates among small ones are dropped.

    Returns:
        [m], rising.

    Cost: negligible.
    """
    return np.unique(np.geomspace(first, last, count).round().astype(int))


def exponent(x: Float[np.ndarray, " m"], y: Float[np.ndarray, " m"]) -> float:
    """Exponent a of y ≈ c xᵃ, by least squares of the logarithms.

    Args:
        x: [m], positive.
        y: [m], positive.

    Returns:
        The exponent, unitless.

    Cost: negligible.
    """
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def relative_error(estimate: np.ndarray, expected: np.ndarray) -> float:
    """‖estimate − expected‖ / ‖expected‖, Frobenius.

    Args:
        estimate: any shape.
        expected: the same shape, not all 0.

    Returns:
        The error, unitless.

    Cost: negligible.
    """
    return float(np.linalg.norm(estimate - expected) / np.linalg.norm(expected))
