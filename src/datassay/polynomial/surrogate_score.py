"""Score of a surrogate, sample by sample, compared with simpler models."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from datassay.data.samples import SampleSet
from datassay.results import result
from datassay.stats import Interval, mean_interval


def score_each(outputs: Float[np.ndarray, "m q"], samples: SampleSet) -> Float[np.ndarray, " m"]:
    """Score of each sample, whose mean is the accuracy or R².

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

        Returns:
            Mean, and half the width of its 95 % interval, by `stats.mean_interval`; infinite for
            one sample.
        """
        found = self._interval(other)
        return found.gain, found.half

    def verdict(self, other: int) -> str:
        """On ours over another model: "better", "worse" or "no difference"."""
        return self._interval(other).verdict

    def _interval(self, other: int) -> Interval:
        unit = 1.0 if self.metric == "accuracy" else 0.0
        return mean_interval(self.each[-1] - self.each[other], unit)
