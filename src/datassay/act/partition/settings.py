"""Settings of `partition`, each default once; nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Division:
    """Into how many blocks samples are divided, and how.

    Attributes:
        n_blocks: K; None chooses 1 to max_blocks.
        max_blocks: where K is to be chosen.
        loss: "cross_entropy", "mse" or "auto": by the task.
        ridge: of every block's model, (ridge/2)‖θ‖² beside its mean loss.
        damping: of the Hessian in the removal effects and V; not of the fits.
        gate: whether the share of a block may depend on the input: "on", "off" or "auto".
        seed: of folds and restarts.
        restarts: of soft EM.
        held_out: part of the samples that one fold leaves out, in (0, 0.5].
    """

    n_blocks: int | None = None
    max_blocks: int = 4
    loss: str = "auto"
    ridge: float = 1e-4
    damping: float = 0.01
    gate: str = "auto"
    seed: int = 0
    restarts: int = 8
    held_out: float = 0.2
