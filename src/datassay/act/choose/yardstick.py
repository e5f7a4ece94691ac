"""What a prediction of a held-out sample is worth, though its label may be wrong too.

Let T[t, g] be the probability that a sample of class t is given the label g. Predicting class c for
a sample of given label g counts as (T⁻¹)[g, c]. Over the given labels of a class t its mean is
Σ_g T[t, g] (T⁻¹)[g, c] = 1 where c = t and 0 elsewhere: the mean over samples is an unbiased
estimate of the accuracy on right labels, whatever the predictions are. No suspect is looked at, so
no act is favoured because it agrees with the model that named the suspects. What it rests on is T,
and that noise depends on the class alone.

Source: backward correction of losses, Natarajan et al. (2013), Patrini et al. (2017, Theorem 1);
here of the accuracy.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float

from datassay.data.samples import SampleSet
from datassay.results import result
from datassay.train.learner import sample_scores

ACCURACY, BALANCED, R2 = "accuracy", "balanced accuracy", "R²"
# A class with less than this part of an even share makes accuracy say little about it.
RARE = 0.2
# Below this smallest singular value of T its inverse says more about T's error than about labels.
LEAST_SINGULAR = 0.15


@result
class Yardstick:
    """How predictions of m held-out samples are scored; the mean over samples is the score.

    Attributes:
        held_out: the samples, with their given labels.
        worth: [m, k], what predicting each class counts; None for targets that are numbers.
        given: [m, k], the same as if every given label were right.
        metric: "accuracy", "balanced accuracy" or "R²".
        is_corrected: whether `worth` counts with wrong labels.
    """

    held_out: SampleSet
    worth: Float[np.ndarray, "m k"] | None
    given: Float[np.ndarray, "m k"] | None
    metric: str
    is_corrected: bool

    def scores(
        self, predictions: Float[np.ndarray, "R m k"], *, as_given: bool = False
    ) -> Float[np.ndarray, "R m"]:
        """What each sample adds to the score of each model."""
        worth = self.given if as_given else self.worth
        if worth is None:
            return sample_scores(torch.from_numpy(predictions), self.held_out).numpy()
        named = predictions.argmax(2)  # [R, m]
        return worth[np.arange(len(worth)), named]

    @property
    def unit(self) -> float:
        """Mean square of the largest worth: what one prediction more or less weighs, squared."""
        if self.worth is None:
            return 0.0
        return float(np.square(self.worth.max(1)).mean())


def yardstick(
    held_out: SampleSet,
    shares: Float[np.ndarray, " k"] | None,
    transition: Float[np.ndarray, "k k"] | None,
) -> Yardstick:
    """How to score predictions of held-out samples."""
    if shares is None:
        return Yardstick(held_out, None, None, R2, False)
    k = len(shares)
    is_balanced = bool((shares[shares > 0] < RARE / k).any())
    given = worth = _table(held_out.y, np.eye(k), is_balanced)
    if transition is not None and _is_invertible(transition):
        worth = _table(held_out.y, np.linalg.inv(transition), is_balanced)
    metric = BALANCED if is_balanced else ACCURACY
    return Yardstick(held_out, worth, given, metric, worth is not given)


def class_shares(train: SampleSet) -> Float[np.ndarray, " k"] | None:
    """Share of each class among training samples; None for numbers."""
    if not train.is_classification:
        return None
    return np.bincount(train.y, minlength=train.n_classes) / len(train)


def _is_invertible(transition: Float[np.ndarray, "k k"]) -> bool:
    return bool(np.linalg.svd(transition, compute_uv=False)[-1] > LEAST_SINGULAR)


def _table(
    labels: np.ndarray, inverse: Float[np.ndarray, "k k"], is_balanced: bool
) -> Float[np.ndarray, "m k"]:
    worth = inverse[labels]
    if not is_balanced:
        return worth
    share = np.maximum(worth.mean(0), 1 / len(labels))  # of the true classes
    return worth / (share * (share > 1 / len(labels)).sum())


def unsuspected(
    probabilities: Float[np.ndarray, "R m k"],
    labels: np.ndarray,
    transition: Float[np.ndarray, "k k"],
) -> Bool[np.ndarray, " m"]:
    """Which held-out labels are more likely right than wrong, by models that never saw them."""
    given = probabilities.mean(0)
    if _is_invertible(transition):
        given = np.clip(given @ np.linalg.inv(transition), 1e-9, None)
    joint = given * transition[:, labels].T  # [m, k]: true class, given label
    return joint[np.arange(len(labels)), labels] >= joint.sum(1) / 2
