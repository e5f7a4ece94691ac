"""Keep one sample of each group of copies."""

import numpy as np

from datassay.act.choose.action import COPIES, Action
from datassay.act.choose.kinds import ActionKind, ProposalScores
from datassay.data.samples import SampleSet
from datassay.optional import coalesce
from datassay.score.checks.copies import is_copy


def propose(train: SampleSet, scores: ProposalScores) -> Action | None:
    """Return the action that keeps one of each group of copies with equal targets; or None."""
    removed = is_copy(coalesce(scores.copies, np.arange(len(train))), train.y)
    if removed.sum() < max(1, len(train) / 100):  # removing less than 1 % changes no score visibly
        return None
    words = "Keep one of each group of copies"
    return Action(COPIES, words, train.y, (~removed).astype(float), int(removed.sum()))


ACTION = ActionKind(
    name=COPIES,
    help="Of samples of one label that are equal or all but equal to each other the first stays.",
    propose=propose,
    doing="keeping one of each group of copies",
    fits=1,
    evidence="data",
    follows=True,
)
