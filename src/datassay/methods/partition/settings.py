"""Defaults of `partition`, whose docstring explains them; nothing heavy is imported here."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Division:
    """Settings of `partition`: into how many blocks samples are divided, and how."""

    n_blocks: int | None = None
    max_blocks: int = 4
    loss: str = "auto"
    ridge: float = 1e-4
    damping: float = 0.01
    gate: str = "auto"
    seed: int = 0
    restarts: int = 8
    held_out: float = 0.2
