"""The one-line rivals: loss and margin of a network trained on the very labels it judges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from jaxtyping import Float


@dataclass(frozen=True, slots=True, eq=False)
class Baselines:
    """Final training loss and margin of each sample, averaged over trained networks.

    Attributes:
        loss: [n], nats (cross-entropy) or squared target units (mean squared error). Higher: worse
            fitted.
        margin: [n], output of the given label minus the largest other; regression: minus the
            absolute residual. Higher: better fitted.
        ids: [n], the samples' ids.
    """

    loss: Float[np.ndarray, " n"]
    margin: Float[np.ndarray, " n"]
    ids: np.ndarray

    def to_table(self) -> pa.Table:
        """One row per sample: id, loss, margin."""
        return pa.table({"id": self.ids, "loss": self.loss, "margin": self.margin})
