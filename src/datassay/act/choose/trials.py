"""Train a model as an act would have it, and ask it about samples that it never saw."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Float
from scipy.special import expit, softmax

from datassay.act.choose.act import Act
from datassay.act.choose.learners import Estimators, Learner
from datassay.data.samples import SampleSet
from datassay.progress import Progress, silent


def predictions(
    learner: Learner,
    train: SampleSet,
    held_out: SampleSet,
    act: Act,
    progress: Progress = silent,
) -> Float[np.ndarray, "R m k"]:
    """What R models say of the held-out samples after they learnt from the samples of an act.

    Args:
        learner: fits R models to R subsets.
        train: n samples, as they are.
        held_out: m samples.
        act: what is done to train.
        progress: called with (step, fits done, fits in all).

    Returns:
        Class probabilities, or targets. Models of one seed start alike under every act and see
        batches in the same order where the numbers of samples agree.

    Raises:
        ModelError: the model cannot be fitted to these samples.

    Cost: R fits, and for each further block R more.
    """
    samples = replace(train, y=act.labels, true_y=None)
    weights = act.weights if act.is_weighted else None
    if act.blocks is None:
        return _asked(learner, samples, held_out, act.kept, weights, progress)
    share = act.blocks.weights(held_out)  # [m, K]
    each = [
        _asked(learner, samples, held_out, members, weights, progress)
        for members in act.blocks.members
    ]
    return np.einsum("mK,Krmk->rmk", share, np.stack(each))


def _asked(
    learner: Learner,
    train: SampleSet,
    held_out: SampleSet,
    chosen: np.ndarray,
    weights: np.ndarray | None,
    progress: Progress,
) -> Float[np.ndarray, "R m k"]:
    subsets = np.tile(chosen, (learner.repeats, 1))
    outputs = learner.outputs(train, held_out, subsets, weights, progress)
    if not train.is_classification or isinstance(learner, Estimators):
        return outputs
    if outputs.shape[2] == 1:
        chance = expit(outputs)
        return np.concatenate([1 - chance, chance], 2)
    return softmax(outputs, 2)
