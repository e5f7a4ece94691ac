"""Settings of `summarize`, each default once; nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Keeping:
    """Which samples stay.

    Attributes:
        rule: "fit", "boundary", "margin", "random", "information", or "auto": what does best on
            held-out samples.
        iterative: whether the information is scored again after each step.
        seed: of pools, folds and the random order.
    """

    rule: str = "auto"
    iterative: bool = False
    seed: int = 0
