"""Likely label errors from out-of-sample outputs of one kernel ridge fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Shaped


@dataclass(frozen=True, slots=True, eq=False)
class LabelIssues:
    """How likely each given label is wrong, one row per sample.

    Attributes:
        score: [n]; higher: more likely mislabelled. Classification: the largest other held-out
            output minus that of the given label, output unit. Regression: the held-out residual's
            modified z-score minus 3.5, unitless.
        suggested_label: [n]; class index of the largest held-out output (int64), or the held-out
            output itself (regression, target unit).
        is_issue: [n] bool, score > 0.
        held_out: [n, k], outputs for each sample from the fit that never saw it.
        weight: [n], in [1e-3, 1], the reweighting that the last round used; 1 where no round ran.
        ridge: the absolute penalty chosen by leave-one-out error, kernel unit.
        ids: [n], the samples' ids.
    """

    score: Float[np.ndarray, " n"]
    suggested_label: Shaped[np.ndarray, " n"]
    is_issue: Bool[np.ndarray, " n"]
    held_out: Float[np.ndarray, "n k"]
    weight: Float[np.ndarray, " n"]
    ridge: float
    ids: np.ndarray

    def to_table(self) -> pa.Table:
        """One row per sample: id, label_issue_score, suggested_label, is_issue."""
        return pa.table({
            "id": self.ids,
            "label_issue_score": self.score,
            "suggested_label": self.suggested_label,
            "is_issue": self.is_issue,
        })
