"""Give suspected labels the label that a fit without the sample suggests."""

from datassay.act.choose.action import RELABEL, Action, relabelling
from datassay.act.choose.kinds import ActionKind, ProposalScores
from datassay.data.samples import SampleSet

TOO_FEW = "Correcting or removing labels: too few stand out as wrong."


def propose(train: SampleSet, scores: ProposalScores) -> Action | str:
    """Return the action that relabels suspects as suggested, or a reason if there are none."""
    issues = scores.issues
    is_suspected = issues.to_try
    if not is_suspected.any():
        return TOO_FEW
    return relabelling(train, issues.suggested_label.reshape(train.y.shape), is_suspected)


ACTION = ActionKind(
    name=RELABEL,
    help="Suspected labels become those that a fit without the sample suggests.",
    propose=propose,
    doing="correcting {them}",
    fits=1,
    evidence="labels",
    command="view",
)
