"""How good a surrogate is, sample by sample, beside simpler ones."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from datassay.data.samples import SampleSet
from datassay.results import result


def score_each(outputs: Float[np.ndarray, "m q"], samples: SampleSet) -> Float[np.ndarray, " m"]:
    """What each sample adds to the score: the mean is the accuracy, or R².

    Args:
        outputs: one a class or target.
        samples: m samples with their labels or targets.

    Returns:
        [m], for classes 1 where the largest output is that of the label, else 0; for targets 1
        minus squared error over the targets' variance here, the mean over targets (one that never
        varies here is left out). An R² of a single sample has no meaning, only their mean.
    """
    if samples.is_classification:
        return (outputs.argmax(axis=1) == samples.y).astype(float)
    y = samples.y.reshape(len(samples), -1)
    variance = y.var(axis=0)
    varies = variance > 0
    if not varies.any():
        return np.zeros(len(y))
    error = (y - outputs)[:, varies] ** 2
    return (1 - error / variance[varies]).mean(axis=1)


@result
class SurrogateScores:
    """Models from simple to ours, on the same validation samples.

    Attributes:
        names: of the r models, ours last.
        each: [r, m], see `score_each`.
        train: [r], mean score of some training samples.
        n_train: how many these are.
        n_features: of each model, its constant included.
        metric: "accuracy" or "R²".
    """

    names: tuple[str, ...]
    each: Float[np.ndarray, "r m"]
    train: Float[np.ndarray, " r"]
    n_train: int
    n_features: tuple[int, ...]
    metric: str

    def difference(self, other: int) -> tuple[float, float]:
        """By how much ours scores above another, paired over samples.

        Args:
            other: which model.

        Returns:
            Mean, and half the width of its normal 95 % interval; infinite for one sample. Where
            no sample tells two classifiers apart the half width is 3/m: with a larger share of
            such samples one would have shown, 95 times of 100 (the rule of three).
        """
        change = self.each[-1] - self.each[other]
        m = len(change)
        if m == 1:
            return float(change.mean()), math.inf
        if self.metric == "accuracy" and not change.any():
            return 0.0, 3 / m
        return float(change.mean()), 1.96 * float(change.std(ddof=1)) / math.sqrt(m)
