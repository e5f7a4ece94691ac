"""Sample information: how much one sample tells the trained network, in nats."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from jaxtyping import Float


@dataclass(frozen=True, slots=True, eq=False)
class SampleInformation:
    """Information of each sample, one row per sample.

    Attributes:
        information: [n], nats, never negative. Larger: the trained network depends more on it.
        ids: [n], the samples' ids.
        smoothing: which measure: "functional" or "isotropic".
        sigma: the standard deviation of the smoothing noise; output unit (functional) or weight
            unit (isotropic).
    """

    information: Float[np.ndarray, " n"]
    ids: np.ndarray
    smoothing: str
    sigma: float

    def to_table(self) -> pa.Table:
        """One row per sample: id, information."""
        return pa.table({"id": self.ids, "information": self.information})
