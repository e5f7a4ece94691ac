"""Weigh samples so that all classes count alike."""

from __future__ import annotations

import numpy as np

from datassay.act.choose.action import BALANCE, Action, ActionKind, ProposalScores, weighting
from datassay.act.weigh.baseline_weights import class_balanced_weights
from datassay.data.samples import SampleSet

# Largest class over smallest from which weights by class can matter.
UNEVEN = 1.5


def propose(train: SampleSet, scores: ProposalScores) -> Action | str | None:
    """Return the action that weighs classes equally; None or a reason where it does not apply."""
    if not scores.takes_weights or not train.is_classification:
        return None
    counts = np.bincount(train.y)
    counts = counts[counts > 0]
    if counts.max() < UNEVEN * counts.min():
        return "Balancing classes: they are about even."
    weights = class_balanced_weights(train.y, beta=1)
    return weighting(BALANCE, "Balance the classes by weights", train, weights, scores.seed)


ACTION = ActionKind(
    name=BALANCE,
    help="Samples count so that all classes count alike.",
    propose=propose,
    command="weigh",
    follows=True,
)
