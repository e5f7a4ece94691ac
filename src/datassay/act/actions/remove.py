"""Leave out the samples whose labels are suspected."""

from datassay.act.choose.action import REMOVE, Action, removal
from datassay.act.choose.kinds import ActionKind, ProposalScores
from datassay.data.samples import SampleSet


def propose(train: SampleSet, scores: ProposalScores) -> Action | None:
    """Return the removal of all suspected samples; None if none or more than half are."""
    is_suspected = scores.issues.to_try
    if not 0 < is_suspected.sum() <= len(train) // 2:
        return None
    return removal(REMOVE, "Remove suspects", train, is_suspected, scores.seed)


ACTION = ActionKind(
    name=REMOVE,
    help="Samples with suspected labels are left out.",
    propose=propose,
    doing="removing {them}",
    removes_suspects=True,
    evidence="labels",
    command="view",
)
