"""Stopping rules of `purify`: each reads the trace and returns the best step.

Accuracy peaks where the precision of removal collapses. What a rule can see of that without a clean
set: the batch just removed is a held-out sample of the refitted model. While it is foreign, that
model gives its labels less than a blind guess would; once it is merely hard, more.
"""

import math

import numpy as np
from jaxtyping import Float

# Steps that a mean is taken over: single batches of ten are noisy.
SMOOTHED = 3


def held_out_threshold(n_classes: int, *, is_convex: bool = True) -> float:
    """Return the mean NLL below which a removed batch no longer counts as foreign.

    log 2K: the refitted model gives the removed labels, in the geometric mean, half the chance of
    a blind guess among K classes. METHODS §4 found 2 nats at K = 4, where this is 2.08. Networks
    tell the hard samples of a pure set wrong more surely, temperature or not: log 4K for them.

    Args:
        n_classes: K; 0 for a regression.
        is_convex: whether the model is linear in what trains.

    Returns:
        Nats. Regression: those of a residual of 3.5 standard deviations of the kept samples, as
        `label_issues` has its cut-off.
    """
    if n_classes:
        return math.log((2 if is_convex else 4) * n_classes)
    return 0.5 * (3.5**2 + math.log(2 * math.pi))


def held_out_stop(surprise: Float[np.ndarray, " steps"], threshold: float) -> int | None:
    """Return how many steps removed foreign samples, or None while the last ones still do.

    Args:
        surprise: [s], mean negative log-likelihood that the model refitted after step t gives the
            labels removed in it; entry t − 1 is step t.
        threshold: from `held_out_threshold`.

    Returns:
        How many steps to keep, once the mean of the last three has fallen below the threshold:
        all but the last. 0 where the first three are below it already: a pure set has a few hard
        samples too. None while it has not fallen.
    """
    for t in range(SMOOTHED, len(surprise) + 1):
        if np.mean(surprise[t - SMOOTHED : t]) < threshold:
            return 0 if t == SMOOTHED else t - 1
    return None


def inflection_stop(variance: Float[np.ndarray, " points"]) -> int:
    """Return the step where the fall of V slows most: S4's accuracy peaks "near the inflection".

    Args:
        variance: V after 0, 1, ... steps.

    Returns:
        Steps to keep: where the second difference of log V, over a window of three, is largest.
    """
    if len(variance) < 2 * SMOOTHED + 1:
        return 0
    log_variance = np.log(np.maximum(variance, np.finfo(float).tiny))
    middle = log_variance[SMOOTHED:-SMOOTHED]
    slope_before = (middle - log_variance[: -2 * SMOOTHED]) / SMOOTHED
    slope_after = (log_variance[2 * SMOOTHED :] - middle) / SMOOTHED
    return int(np.argmax(slope_after - slope_before)) + SMOOTHED


def validation_stop(score: Float[np.ndarray, " points"]) -> int:
    """Return the step of the highest validation score, averaged over three; first of ties.

    Args:
        score: accuracy or R² after 0, 1, ... steps.

    Returns:
        Steps to keep.
    """
    padded = np.pad(score, SMOOTHED // 2, mode="edge")
    smooth = np.convolve(padded, np.ones(SMOOTHED) / SMOOTHED, mode="valid")
    return int(np.argmax(smooth > smooth.max() - 1e-12))
