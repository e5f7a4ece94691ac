"""A score as a newcomer would add it: one module, and an entry point that names it."""

import numpy as np

from datassay.results import Tabular, column, result, sample_ids
from datassay.score.registry import Context, Score


@result
class Rarity(Tabular):
    """How rare each sample's label is."""

    rarity: np.ndarray = column(
        "share of the other labels", unit="share", sign="high: a rare label", digits=2
    )
    ids: np.ndarray = sample_ids()


def rarity(context: Context) -> Rarity:
    """1 minus the share of the sample's class, where its information is known."""
    assert len(context.results["information"].information) == len(context.train)
    counts = np.bincount(context.train.y)
    context.progress("rarity", 1, 1)
    return Rarity(1 - counts[context.train.y] / len(context.train), context.train.ids)


SCORE = Score(
    name="rarity",
    help="How rare the sample's label is.",
    compute=rarity,
    result=Rarity,
    needs=("information",),
    cost=lambda sizes: 7e9 * sizes.train,
)
