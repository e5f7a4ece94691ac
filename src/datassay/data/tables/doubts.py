"""What a reader must know of a target: a few values that rule it, and its logarithm."""

from dataclasses import replace

import numpy as np

from datassay.data.source import Source
from datassay.errors import DataError

SKEWED = 0.6  # skewness from which the logarithm is offered, where it halves that
# Of the others: a few wrong targets, ten times as large, say nothing of the skewness of the rest.
OUTERMOST = 0.05  # share on either side
FEWEST_SKEWED = 8  # targets of which skewness says something


def skew_warning(y: np.ndarray) -> tuple[str, ...]:
    """Return a warning if a target is skewed and its logarithm is at most half as skewed."""
    from scipy.stats import skew

    if y.ndim > 1 or y.min() < 0:
        return ()
    low, high = np.quantile(y, [OUTERMOST, 1 - OUTERMOST])
    middle = y[(low <= y) & (y <= high)]
    if low == high or len(middle) < FEWEST_SKEWED:
        return ()
    skewness = float(skew(middle))
    if skewness <= SKEWED:
        return ()
    log_skewness = abs(float(skew(_take_log(middle, bool(y.min() == 0)))))
    if log_skewness > skewness / 2:
        return ()
    return (
        f"The target is skewed (skewness of its middle 90 % {skewness:.1f}, of their logarithms "
        f"{log_skewness:.1f}), so its largest values decide most of the fit. Consider "
        "--log-target (in Python log_target=True).",
    )


def with_log_target(source: Source) -> Source:
    """Return a source with ln y as target, or ln(1 + y) if some targets are 0."""
    parts = [subset.y for subset in (source.train, source.val) if subset is not None]
    if any(y.dtype.kind not in "iuf" or y.min() < 0 for y in parts):
        raise DataError(
            "log_target needs targets that are numbers of at least 0; these are not. Leave it out."
        )
    has_zero = any(y.min() == 0 for y in parts)
    words = "ln(target)"
    if has_zero:
        words = "ln(1 + target)"
    fields = {"treatment": f"{words} is predicted", "note": words}
    columns = (replace(c, **fields) if c.read_as == "target" else c for c in source.columns)
    train = replace(source.train, y=_take_log(source.train.y, has_zero))
    val = source.val
    if val is not None:
        val = replace(val, y=_take_log(val.y, has_zero))
    return replace(source, train=train, val=val, columns=tuple(columns))


def _take_log(y: np.ndarray, has_zero: bool) -> np.ndarray:
    """Return ln y, or ln(1 + y) if some targets are 0 in any part."""
    y = y.astype(np.float64)
    if has_zero:
        return np.log1p(y)
    return np.log(y)
