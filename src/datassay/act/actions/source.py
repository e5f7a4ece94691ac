"""Relabel the suspects of the sources of labels that err far more often than the others."""

from dataclasses import replace

import numpy as np

from datassay.act.choose.action import SOURCE, Action, relabelling
from datassay.act.choose.kinds import ActionKind, ProposalScores
from datassay.data.samples import SampleSet


def propose(train: SampleSet, scores: ProposalScores) -> Action | None:
    """Return the action that relabels only suspects from sources that err; or None."""
    issues = scores.issues
    sources = issues.sources
    if sources is None:
        return None
    is_suspected = issues.to_try & sources.is_erring
    if not is_suspected.any() or is_suspected.sum() == issues.to_try.sum():
        return None  # nothing to do, or what relabelling all suspects does
    names = ", ".join(np.array(sources.values)[sources.errs])
    action = relabelling(train, issues.suggested_label.reshape(train.y.shape), is_suspected)
    return replace(action, kind=SOURCE, words=f"Relabel suspects of {sources.column} {names}")


ACTION = ActionKind(
    name=SOURCE,
    help="Of sources of labels that err far more often, suspected labels become those suggested.",
    propose=propose,
    doing="correcting the suspects of sources that err",
    fits=1,
    evidence="labels",
    command="view",
)
