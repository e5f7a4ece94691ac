"""An action as a newcomer would add it: one module, and an entry point that names it."""

import numpy as np

from datassay.act import Action, ActionKind, removal


def propose(samples, scores) -> Action:
    """Leave out every tenth sample, compared with as many at random."""
    return removal("thin", "Thin out", samples, np.arange(len(samples)) % 10 == 0, scores.seed)


ACTION = ActionKind(
    name="thin",
    help="Every tenth sample is left out.",
    propose=propose,
    fits=7,
    evidence="removal",
    command="summarize",
)
