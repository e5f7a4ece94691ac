"""Score of a surrogate, sample by sample, compared with simpler models."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from datassay.data.samples import SampleSet
from datassay.polynomial.surrogate import Surrogate, output_targets
from datassay.results import result
from datassay.stats import Interval, mean_interval

# So many training samples say enough: a score of 2000 is known to a point.
N_TRAIN = 5000


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

    def ahead_of(self, other: int) -> Interval:
        """Score of ours minus another's, paired over samples; infinitely wide for one sample."""
        unit = 1.0 if self.metric == "accuracy" else 0.0
        return mean_interval(self.each[-1] - self.each[other], unit)


def surrogate_scores(
    models: Mapping[str, Surrogate],
    outputs: Mapping[str, Float[np.ndarray, "m q"]],
    train: SampleSet,
    val: SampleSet,
    *,
    seed: int,
) -> SurrogateScores:
    """Scores of a constant, then of models from simple to ours with their validation `outputs`."""
    rng = np.random.default_rng(seed)
    some = train.subset(np.sort(rng.permutation(len(train))[:N_TRAIN]))
    mean = output_targets(train).mean(axis=0)
    constant = [np.tile(mean, (len(samples), 1)) for samples in (val, some)]
    each, seen = [score_each(constant[0], val)], [score_each(constant[1], some).mean()]
    for name, model in models.items():
        each.append(score_each(outputs[name], val))
        seen.append(score_each(model.outputs(some.x), some).mean())
    return SurrogateScores(
        names=("the commonest class" if train.is_classification else "the mean", *models),
        each=np.stack(each),
        train=np.array(seen),
        n_train=len(some),
        n_features=(1, *(model.polynomial.monomials.n_features for model in models.values())),
        metric="accuracy" if train.is_classification else "R²",
    )
