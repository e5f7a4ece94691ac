"""Remove what contradicts a linear model: classes by cross-fitting, targets by influence."""

import numpy as np

from datassay.act.choose.action import Action, removal
from datassay.act.choose.kinds import ActionKind, ProposalScores
from datassay.data.samples import SampleSet
from datassay.errors import DatassayError
from datassay.methods.purify.loop import purify
from datassay.models.build import linear_or_named

# Purifying refits a convex model of p weights to n samples: at most so large an n p², and so often.
MOST_WORK, STEPS = 3e7, 20
PURIFY = "purify"


def propose(train: SampleSet, scores: ProposalScores) -> Action | str:
    """Return the action "remove what `purify` rejects", or why it is not proposed."""
    weights = (train.x[0].size + 1) * (1 if train.n_classes <= 2 else train.n_classes)
    if train.y.ndim > 1:
        return "Purifying: it is of one target per sample."
    if len(train) < weights:
        return (
            f"Purifying: a linear model of {weights:,} weights needs more than {len(train):,} "
            "samples to tell what does not belong."
        )
    if len(train) * weights**2 > MOST_WORK:
        return "Purifying: it takes minutes here; datassay purify does it."
    try:
        step = max(1, len(train) // STEPS)
        seed = scores.seed
        model = linear_or_named("logistic" if train.is_classification else "linear", train, seed)
        order = "fixed"
        if train.is_classification:
            order = "auto"
        purified = purify(model, train, order=order, step=step, seed=seed)
    except DatassayError as error:
        return f"Purifying: {error}"
    removed = np.ones(len(train), bool)
    removed[purified.keep] = False
    if not removed.any():
        return "Purifying: the samples agree; none is to be removed."
    return removal(PURIFY, "Purify", train, removed, seed)


ACTIONS = (
    ActionKind(
        name=PURIFY,
        help="Samples go that contradict a linear model of the others, where that helps it.",
        propose=propose,
        doing="removing foreign samples",
        removes_suspects=True,
        command="purify",
        is_searched=True,
        order=30,
    ),
)
