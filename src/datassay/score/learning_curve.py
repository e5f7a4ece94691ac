"""The kernel's spectrum and what it predicts: which modes are learned when (spectral bias)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True, slots=True, eq=False)
class LearningCurve:
    """Predicted training error over time, by eigenmode of the kernel.

    Attributes:
        eigenvalues: [p], descending, kernel unit; the kernel's non-zero spectrum.
        energy: [p], target unit squared: the squared initial residual that lies in each mode.
        steps: [t], training steps, log-spaced.
        groups: [g] names of bands of modes, such as "modes 1-10".
        residual: [g, t], share of each band's initial squared residual that is left, in [0, 1].
        total: [t], share of the whole initial squared residual that is left.
        lr: the step size, sum-loss convention.
    """

    eigenvalues: Float[np.ndarray, " p"]
    energy: Float[np.ndarray, " p"]
    steps: Float[np.ndarray, " t"]
    groups: tuple[str, ...]
    residual: Float[np.ndarray, "g t"]
    total: Float[np.ndarray, " t"]
    lr: float
