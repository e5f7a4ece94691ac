"""What `datassay partition` can be told."""

from __future__ import annotations

from dataclasses import dataclass

from datassay.commands.inputs import BLOCK_MODEL_HELP, DAMPING_HELP, RIDGE_HELP, SEED_HELP
from datassay.setting import setting


@dataclass(frozen=True, slots=True)
class PartitionSettings:
    """What the job can be told; every default is what `datassay partition DATA` does."""

    model: str = setting("logistic", BLOCK_MODEL_HELP)
    blocks: int | None = setting(None, "How many (default: by held-out likelihood).")
    max_blocks: int = setting(4, "Most to try where --blocks is not given.")
    gate: str = setting("auto", "Blocks depend on the input: on, off, or auto by what predicts.")
    ridge: float = setting(1e-4, RIDGE_HELP)
    damping: float = setting(0.01, DAMPING_HELP)
    restarts: int = setting(8, "Random starts of each mixture.")
    seed: int = setting(0, SEED_HELP)
    command: str = ""
