"""Result of `purify`: the samples to keep, and the trace of every step."""

from __future__ import annotations

from dataclasses import field

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int
from torch import nn

from datassay.results import Tabular, field_names, result


@result
class PurificationTrace(Tabular):
    """Measurements before the first step and after each one; s + 1 points.

    Attributes:
        removed: samples removed so far.
        variance: V[X] of what is kept, under the model fitted to it.
        loss: mean loss of what is kept, nats or half squared target units.
        surprise: mean negative log-likelihood, in nats, of the labels removed in the step, under
            the model refitted without them; NaN at the first point.
        validation: accuracy or R² on the validation set; NaN without one.
        test: the same on the test set, which no decision sees; NaN without one.
    """

    removed: Int[np.ndarray, " points"]
    variance: Float[np.ndarray, " points"]
    loss: Float[np.ndarray, " points"]
    surprise: Float[np.ndarray, " points"]
    validation: Float[np.ndarray, " points"]
    test: Float[np.ndarray, " points"]

    def to_table(self) -> pa.Table:
        """One row a point."""
        return pa.table({name: getattr(self, name) for name in field_names(self)})


@result
class Purification(Tabular):
    """The samples to keep, and how they were chosen.

    Attributes:
        keep: [kept] positions, ascending.
        removed: [n − kept] positions, in the order of removal.
        ids: [n].
        trace: every step that was looked at, those beyond the stop included.
        steps: how many steps were kept; the point of the trace where it stopped.
        order: the ranking that was used.
        rule: the stopping rule that was used.
        threshold: of the rule "held_out", nats; NaN for others.
        model: the network fitted to what is kept.
        warnings: what the user should know.
    """

    keep: Int[np.ndarray, " kept"]
    removed: Int[np.ndarray, " removed"]
    ids: np.ndarray
    trace: PurificationTrace
    steps: int
    order: str
    rule: str
    threshold: float
    model: nn.Module
    warnings: tuple[str, ...] = field(default=())

    @property
    def is_removed(self) -> np.ndarray:
        """[n] whether each sample was removed."""
        mask = np.zeros(len(self.ids), bool)
        mask[self.removed] = True
        return mask

    def to_table(self) -> pa.Table:
        """One row per sample: id, removed, step of its removal (0 where it was kept)."""
        step = np.zeros(len(self.ids), np.int64)
        sizes = np.diff(self.trace.removed[: self.steps + 1])
        step[self.removed] = np.repeat(np.arange(1, self.steps + 1), sizes)
        return pa.table({"id": self.ids, "removed": step > 0, "step": step})
