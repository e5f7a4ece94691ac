"""Train a model as an act would have it, and ask it about samples that it never saw."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from datassay.act.choose.act import Act
from datassay.data.samples import SampleSet
from datassay.progress import Progress, silent
from datassay.train.learner import Learner


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
    chosen = (act.kept,) if act.blocks is None else act.blocks.members
    each = [
        learner.answers(samples, held_out, np.tile(some, (learner.repeats, 1)), weights, progress)
        for some in chosen
    ]
    if act.blocks is None:
        return each[0]
    share = act.blocks.weights(held_out)  # [m, K]
    return np.einsum("mK,Krmk->rmk", share, np.stack(each))
