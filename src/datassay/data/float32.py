"""Whether inputs keep their differences in float32, in which networks compute."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from datassay.errors import DataError

# What rounding may change of a feature, in its standard deviations.
MAX_LOSS = 0.01
SHOWN = 5
_BLOCK = 2**22  # values at a time


def rounding_loss(x: np.ndarray) -> np.ndarray:
    """What float32 changes of each feature, beyond one common shift.

    max_i |(f(x_i) − f(x_0)) − (x_i − x_0) − mean| / std(x),  f rounds to float32

    Args:
        x: [n, m] float64 or whole numbers.

    Returns:
        [m], in standard deviations of the feature: 0 where nothing is lost, or where the feature is
        constant or not finite; infinity where a value is too large for float32.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = x.astype(np.float32).astype(np.float64)
        # Whole numbers beyond 2^53 differ exactly only as such. Unsigned differences wrap around
        # to what int64 reads as negative.
        apart = (x - x[:1]).astype(np.int64) if x.dtype.kind in "iu" else x - x[:1]
        apart = apart.astype(np.float64)
        change = (rounded - rounded[:1]) - apart
        change = np.abs(change - change.mean(axis=0)).max(axis=0)
        largest = np.abs(apart).max(axis=0)
        # Scaled first: the square of 1e-200 is 0.
        spread = (apart / np.where(largest > 0, largest, 1)).std(axis=0) * largest
        loss = np.where(spread > 0, change / np.where(spread > 0, spread, 1), 0.0)
    loss = np.where(np.isfinite(rounded).all(axis=0), np.nan_to_num(loss, nan=np.inf), np.inf)
    return np.where(np.isfinite(x).all(axis=0), loss, 0.0)


def lost_features(x: np.ndarray) -> np.ndarray:
    """The features that float32 makes other ones.

    Args:
        x: [n, m] numbers, n at least 1.

    Returns:
        Positions of those whose `rounding_loss` is above MAX_LOSS.

    Cost: two passes over x where values are far from the limit; a dozen for features near it.
    """
    if x.dtype.kind not in "iuf" or x.dtype.itemsize < 4 or x.dtype == np.float32:
        return np.arange(0)
    low, high = x.min(axis=0).astype(np.float64), x.max(axis=0).astype(np.float64)
    largest = np.maximum(np.abs(low), np.abs(high))
    # A standard deviation is at least the range over √(2 n), a rounding error at most half a step.
    with np.errstate(over="ignore", invalid="ignore"):
        bound = 2 * (largest * 2.0**-24 + 2.0**-149) * np.sqrt(2 * len(x))
        is_safe = (bound <= MAX_LOSS * (high - low)) & (largest < np.finfo(np.float32).max)
    near = np.flatnonzero(~is_safe)
    width = max(1, _BLOCK // len(x))
    blocks = [near[a : a + width] for a in range(0, len(near), width)]
    lost = [block[rounding_loss(x[:, block]) > MAX_LOSS] for block in blocks]
    return np.concatenate(lost) if lost else near


def check_differences(x: np.ndarray, names: Sequence[str], what: str = "feature") -> None:
    """Refuse features that float32 makes other ones: its rounding hides what tells samples apart.

    Args:
        x: [n, ...] numbers.
        names: one a feature; fewer: they are numbered.
        what: what to call a feature in the error.

    Raises:
        DataError: rounding changes a feature by more than MAX_LOSS of its standard deviation.

    Cost: as `lost_features`.
    """
    lost = lost_features(x.reshape(len(x), -1)) if x.size else np.arange(0)
    if len(lost):
        shown = [names[j] if j < len(names) else f"x{j}" for j in lost[:SHOWN]]
        more = f" and {len(lost) - SHOWN} more" * (len(lost) > SHOWN)
        raise DataError(
            f"every {what} must keep its differences in float32, in which networks compute; "
            f"{', '.join(map(repr, shown))}{more} would not: rounding changes them by more than "
            f"{MAX_LOSS:.0%} of their standard deviation. Subtract an offset (of a time, the "
            "first), or choose a unit in which values are near 1."
        )
