"""What `datassay purify` can be told."""

from __future__ import annotations

from dataclasses import dataclass

from datassay.commands.inputs import BLOCK_MODEL_HELP, DAMPING_HELP, RIDGE_HELP, SEED_HELP
from datassay.setting import setting


@dataclass(frozen=True, slots=True)
class PurifySettings:
    """What the job can be told; every default is what `datassay purify DATA` does."""

    model: str = setting("logistic", BLOCK_MODEL_HELP)
    order: str = setting(
        "auto", "Influence auto, adjoint, fixed, step, retrain; rivals loss, random."
    )
    rule: str = setting(
        "auto", "Rule: auto, held_out, validation, inflection or none.", name="stop"
    )
    ridge: float = setting(1e-4, RIDGE_HELP)
    damping: float = setting(0.01, DAMPING_HELP)
    step: int | None = setting(
        None, "Samples removed a step (default: one in a hundred, networks one in forty)."
    )
    max_fraction: float = setting(0.5, "Never remove more than this, in (0, 1).")
    min_per_class: int = setting(10, "A class is never left with fewer.")
    beyond: int = setting(5, "Steps to look at beyond the stop.")
    rival: bool = setting(True, "Remove by plain loss too, to compare.")
    seed: int = setting(0, SEED_HELP)
    command: str = ""
