"""Which model actions are retrained with, where the user named none.

On tables boosted trees, unless a linear model or the network predicts held-out samples clearly
better: of equals the one that people use.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from datassay.act.choose.kinds import likely_fits
from datassay.act.choose.looks import Predictions, base_predictions
from datassay.act.choose.parts import Part
from datassay.data.samples import SampleSet
from datassay.models.tabular import LOGISTIC, RIDGE, TREES, column_parts, fit_seconds
from datassay.stats import sum_by_group
from datassay.train.learner import table_learner

SHARE = 0.5  # of the budget that the likely actions may take by boosted trees


@dataclass(frozen=True, slots=True)
class Chosen:
    """The parts with the model that predicts their held-out samples best.

    Attributes:
        name: of the model, one of `models.tabular`; empty: the parts' own.
        parts: with its learners.
        base: what it predicts there, learning from the samples as they are.
        per_fit: nominal seconds that one model a seed takes over all parts; None: not known.
        note: why other models were not tried; may be empty.
    """

    name: str
    parts: Sequence[Part]
    base: Sequence[Predictions] = ()
    per_fit: float | None = None
    note: str = ""

    def scores(self) -> list[Float[np.ndarray, "1 m"]]:
        """Return held-out scores, averaged over seeds and summed by group, [1, m] for each part."""
        pairs = zip(self.parts, self.base, strict=True)
        scores = [fold.scoring_rule.scores(base).mean(0, keepdims=True) for fold, base in pairs]
        return sum_by_group(scores, [fold.scoring_rule.groups for fold in self.parts])


def best_learner(own: Chosen, *, budget: float = np.inf) -> Chosen:
    """Return the learner that predicts best: the parts' own, or one of the usual for tables.

    Args:
        own: the parts with their own learners.
        budget: seconds; models by which the likely actions take more than SHARE are not tried.

    Returns:
        Boosted trees, or the linear model or the parts' own where these predict better by one
        standard error; images, texts and several targets keep their own.

    Raises:
        ModelError: a model cannot be fitted to the samples.

    Cost: for each part R fits of each model to the samples as they are.
    """
    train = own.parts[0].train
    repeats = own.parts[0].learner.repeats
    seconds = trial_seconds(train, len(own.parts) * repeats)
    if not seconds:
        return own
    needed = likely_fits() * seconds
    if needed > SHARE * budget:
        note = f"Boosted trees: actions would take about {needed:,.0f} s on two cores, "
        note += f"more than the {SHARE * budget:.1f} s for them; a larger --budget tries them."
        return replace(own, note=note)
    candidates = [own if own.base else replace(own, base=base_predictions(own.parts))]
    for name in (LOGISTIC if train.is_classification else RIDGE, TREES):
        learners = [
            table_learner(name, fold.train, repeats=repeats, seed=fold.learner.seed)
            for fold in own.parts
        ]
        pairs = zip(own.parts, learners, strict=True)
        parts = [replace(fold, learner=learner) for fold, learner in pairs]
        per_fit = seconds if name == TREES else seconds / repeats
        candidates.append(Chosen(name, parts, base_predictions(parts), per_fit))
    *rivals, trees = candidates
    score = {model.name: np.concatenate(model.scores(), 1)[0] for model in candidates}

    def is_better(rival: Chosen) -> bool:  # than boosted trees, by one standard error
        gain = score[rival.name] - score[TREES]
        return bool(gain.mean() > gain.std() / len(gain) ** 0.5)

    better = [rival for rival in rivals if is_better(rival)]
    return max([trees, *better], key=lambda candidate: score[candidate.name].mean())


def trial_seconds(train: SampleSet, n_fits: int) -> float:
    """Return estimated seconds of n_fits boosted-tree fits; 0 if no table model suits."""
    if train.kind != "row" or train.y.ndim > 1:
        return 0.0
    return n_fits * fit_seconds(len(train), len(column_parts(train)), train.n_classes)
