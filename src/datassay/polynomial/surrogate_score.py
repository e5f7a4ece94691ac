"""Score of a surrogate, sample by sample, compared with simpler models."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from datassay.data.samples import SampleSet
from datassay.results import result


def score_each(outputs: Float[np.ndarray, "m q"], samples: SampleSet) -> Float[np.ndarray, " m"]:
    """Score of each sample, whose mean is the accuracy or R².

    Args:
        outputs: one per class or target.
        samples: m samples with their labels or targets.

    Returns:
        [m]. Classes: 1 where the largest output is the label's, else 0. Targets: 1 minus squared
        error over the variance of these targets, averaged over targets (constant ones are left
        out); only the mean over samples is an R².
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
    """Scores of models from simple to ours, on the same validation samples.

    Attributes:
        names: names of the r models, ours last.
        each: [r, m], see `score_each`.
        train: [r], mean score on some training samples.
        n_train: number of these.
        n_features: features of each model, constant included.
        metric: "accuracy" or "R²".
    """

    names: tuple[str, ...]
    each: Float[np.ndarray, "r m"]
    train: Float[np.ndarray, " r"]
    n_train: int
    n_features: tuple[int, ...]
    metric: str

    def difference(self, other: int) -> tuple[float, float]:
        """Score of ours minus another's, paired over samples.

        Args:
            other: index of the other model.

        Returns:
            Mean, and half the width of its normal 95 % interval; infinite for one sample. Where
            two classifiers agree on every sample, the half width is 3/m: a larger share of
            disagreement would have shown with 95 % probability (the rule of three).
        """
        change = self.each[-1] - self.each[other]
        m = len(change)
        if m == 1:
            return float(change.mean()), math.inf
        if self.metric == "accuracy" and not change.any():
            return 0.0, 3 / m
        return float(change.mean()), 1.96 * float(change.std(ddof=1)) / math.sqrt(m)
