"""Settings of training, each default once; nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Descent:
    """Full-batch gradient descent.

    Attributes:
        steps: updates.
        weight_decay: λ of (λ/2)‖w − w₀‖² beside the loss as reduced.
    """

    steps: int = 2000
    weight_decay: float = 0.0
