"""Drop samples: suspects first, then the least informative."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from datassay.act.choose.action import DROP, Action, removal
from datassay.act.choose.kinds import ActionKind, ProposalScores
from datassay.act.remove.summarize import suspects_first
from datassay.data.samples import SampleSet

FRACTIONS = (0.1, 0.25, 0.5, 0.75)
FEWEST = 8  # samples that remain


def propose(train: SampleSet, scores: ProposalScores) -> Iterator[Action]:
    """Yield drop actions of increasing size while at least 8 samples and 2 classes remain."""
    order = suspects_first(scores.information, scores.issues)
    for fraction in FRACTIONS:
        n = round(fraction * len(train))
        removed = np.zeros(len(train), bool)
        removed[order[:n]] = True
        has_classes = not train.is_classification or len(np.unique(train.y[~removed])) >= 2
        if not 0 < n <= len(train) - FEWEST or not has_classes:
            return
        words = f"Drop {100 * fraction:.0f} % of the samples"
        yield replace(removal(DROP, words, train, removed, scores.seed), fraction=fraction)


ACTION = ActionKind(
    name=DROP,
    help="Suspects go first, then the least informative samples: the largest part that costs "
    "nothing.",
    propose=propose,
    removes_suspects=True,
    fits=len(FRACTIONS) + 1,  # one control, of the largest that costs nothing
    evidence="removal",
    command="summarize",
)
