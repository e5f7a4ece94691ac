"""What experiments read off their measurements."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def exponent(x: Float[np.ndarray, " m"], y: Float[np.ndarray, " m"]) -> float:
    """The a of y ≈ c xᵃ, by least squares of the logarithms.

    Args:
        x: [m], positive.
        y: [m], positive.

    Returns:
        The exponent, unitless.

    Cost: negligible.
    """
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    """‖found − expected‖ / ‖expected‖, Frobenius.

    Args:
        found: any shape.
        expected: the same shape, not all 0.

    Returns:
        The error, unitless.

    Cost: negligible.
    """
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))
