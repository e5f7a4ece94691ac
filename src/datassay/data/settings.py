"""The rules that settings of this step share."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from datassay.errors import DataError


def check_seed(seed: Any) -> None:
    """Refuse what cannot seed both NumPy and scikit-learn.

    Args:
        seed: an integer, 0 ≤ seed < 2^32.

    Raises:
        DataError: it is not.
    """
    if not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
        raise DataError(f"seed must be an integer in 0..2^32−1; got {seed!r}. Pass 0, 1, 2, ...")


def is_fraction(value: Any) -> bool:
    """Whether the value is a real number in [0, 1]; NaN and strings are not."""
    return isinstance(value, Real) and 0 <= float(value) <= 1
