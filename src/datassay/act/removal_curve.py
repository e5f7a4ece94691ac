"""What removing samples costs: networks retrained on what each ranking would keep."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True, slots=True, eq=False)
class RemovalCurve:
    """Validation score of retrained networks against the fraction of samples removed.

    Attributes:
        fractions: [f], fraction of the training samples removed, ascending, starting at 0.
        rankings: [r] names, such as "lowest information first".
        score: [r, f, s], accuracy in [0, 1] (classification) or R² (regression) on the validation
            samples, one value a seed.
        metric: "accuracy" or "R²".
    """

    fractions: Float[np.ndarray, " f"]
    rankings: tuple[str, ...]
    score: Float[np.ndarray, "r f s"]
    metric: str
