"""What actions gained: a row each, and the table of all of them."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from datassay.act.choose.action import RELABEL
from datassay.results import Tabular, field_names, result
from datassay.stats import DO, TRY

RETRAINED = "retrained"
SCREENED = "screened"
EXPECTED = "expected"


@result
class ActionGain:
    """The gain of one action, measured or screened.

    Attributes:
        kind: which action: the name of an ActionKind, or several with + between.
        words: what is done.
        how: "retrained", "screened" (the closed form alone) or "expected" (a learning curve).
        gain: of the metric, over the samples as they are; nan where nothing could be estimated.
        low: lower end of its 95 % interval, which also counts with as few and as many wrong labels
            among the held-out ones as there may be; −inf where it was only screened.
        high: upper end.
        p: two-sided p value of no gain, of this action alone.
        verdict: how strong the evidence is, by `stats.verdicts`; empty where only screened.
        advice: what to do, by `stats.advice`; empty likewise.
        given: the gain as if every held-out label were right.
        unsuspected: the gain on held-out samples whose labels are not suspected.
        control: the gain of the control; nan where there was none.
        control_words: what the control does.
        screened: the gain in closed form.
        changed: number of samples that it touches.
        cost: number of samples that it removes; negative: to be collected.
        seconds: that its retraining took.
        note: what else is to be known; may be empty.
    """

    kind: str
    words: str
    how: str
    gain: float
    low: float
    high: float
    p: float
    verdict: str
    given: float = np.nan
    unsuspected: float = np.nan
    control: float = np.nan
    control_words: str = ""
    screened: float = np.nan
    changed: int = 0
    cost: int = 0
    seconds: float = 0.0
    note: str = ""
    advice: str = ""

    @property
    def is_measured(self) -> bool:
        """Whether its gain has an interval."""
        return bool(np.isfinite(self.low))

    @property
    def is_advised(self) -> bool:
        """Whether it helps, or may help."""
        return self.advice in {DO, TRY}


def is_correction_advised(actions: Sequence[ActionGain]) -> bool:
    """Return whether relabelling the suspects, with nothing else, helps or may help."""
    return any(action.kind == RELABEL and action.is_advised for action in actions)


@result
class ActionTable(Tabular):
    """Actions compared with the samples as they are, best first.

    Attributes:
        actions: what was tried; those only screened behind the others.
        left_out: what was not tried, and why.
        metric: "accuracy", "balanced accuracy" or "R²".
        score: of the samples as they are, corrected for wrong held-out labels where they are.
        score_given: the same as if every held-out label were right.
        n_held_out: samples that gains are measured on.
        n_suspected: those of them with a suspected label.
        n_parts: held-out parts: 1, or folds.
        n_seeds: models per action and part.
        is_corrected: whether gains count with wrong held-out labels.
        seconds: that all of it took.
        model: what was trained; empty where that is not known.
    """

    actions: tuple[ActionGain, ...]
    left_out: tuple[str, ...]
    metric: str
    score: float
    score_given: float
    n_held_out: int
    n_suspected: int
    n_parts: int
    n_seeds: int
    is_corrected: bool
    seconds: float
    model: str = ""

    @property
    def is_useless(self) -> bool:
        """Whether samples as they are make a useless model: an action gains more than 1 of R²."""
        return any(action.gain > 1 for action in self.actions if action.how == RETRAINED)

    @property
    def best(self) -> ActionGain | None:
        """The action to do, the first that helps; None: none is shown to."""
        return next((action for action in self.actions if action.advice == DO), None)

    def to_table(self) -> pa.Table:
        """Return a table with a row per action and a column per field of ActionGain."""
        names = field_names(ActionGain)
        return pa.table({
            name: [getattr(action, name) for action in self.actions] for name in names
        })
