"""Weigh samples by the variance of labels among their neighbours (S0), or all classes alike."""

import numpy as np

from datassay.act.choose.action import Action, weighting
from datassay.act.choose.kinds import ActionKind, ProposalScores
from datassay.data.samples import SampleSet
from datassay.data.scaling import standardized_inputs
from datassay.methods.weigh.baseline_weights import class_balanced_weights
from datassay.methods.weigh.weights import local_variance_weights

NEIGHBORS = 20
REWEIGHT, BALANCE = "reweight", "balance"
# Largest class over smallest from which weights by class can matter.
UNEVEN = 1.5


def propose_reweighting(train: SampleSet, scores: ProposalScores) -> Action | str | None:
    """Return the action "weight by local label variance", or why it is not proposed."""
    if not scores.takes_weights:
        return "Weights: the model's fit takes none."
    if len(train) <= NEIGHBORS or train.y.ndim != 1:
        return None
    weights = local_variance_weights(standardized_inputs(train), train.y, NEIGHBORS)
    if not np.ptp(weights) > 0:
        return "Reweighting: all neighbours have one label, so all weights are the same."
    return weighting(REWEIGHT, "Reweight by local variance", train, weights, scores.seed)


def propose_balancing(train: SampleSet, scores: ProposalScores) -> Action | str | None:
    """Return the action "weight classes equally"; a reason or None if it does not apply."""
    if not scores.takes_weights or not train.is_classification:
        return None
    counts = np.bincount(train.y)
    counts = counts[counts > 0]
    if counts.max() < UNEVEN * counts.min():
        return "Balancing classes: they are about even."
    weights = class_balanced_weights(train.y, beta=1)
    return weighting(BALANCE, "Balance the classes by weights", train, weights, scores.seed)


ACTIONS = (
    ActionKind(
        name=REWEIGHT,
        help="Samples count by the variance of labels among their neighbours.",
        propose=propose_reweighting,
        doing="weighing samples by local variance",
        command="weigh",
        follows=True,
        order=10,
    ),
    ActionKind(
        name=BALANCE,
        help="Samples count so that all classes count alike.",
        propose=propose_balancing,
        doing="giving each class the same total weight",
        command="weigh --method class_balanced",
        follows=True,
        order=20,
    ),
)
