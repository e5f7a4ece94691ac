"""Weigh samples by the variance of labels among their neighbours (S0)."""

from __future__ import annotations

import numpy as np

from datassay.act.choose.action import REWEIGHT, Action, ActionKind, ProposalScores, weighting
from datassay.act.weigh.features import standardized_inputs
from datassay.act.weigh.weights import local_variance_weights
from datassay.data.samples import SampleSet

NEIGHBORS = 20


def propose(train: SampleSet, scores: ProposalScores) -> Action | str | None:
    """Return the action that weighs by local label variance, or a reason against it."""
    if not scores.takes_weights:
        return "Weights: the model's fit takes none."
    if len(train) <= NEIGHBORS or train.y.ndim != 1:
        return None
    weights = local_variance_weights(standardized_inputs(train), train.y, NEIGHBORS)
    if not np.ptp(weights) > 0:
        return "Reweighting: all neighbours have one label, so all weights are the same."
    return weighting(REWEIGHT, "Reweight by local variance", train, weights, scores.seed)


ACTION = ActionKind(
    name=REWEIGHT,
    help="Samples count by the variance of labels among their neighbours.",
    propose=propose,
    command="weigh",
    follows=True,
)
