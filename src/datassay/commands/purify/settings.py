"""What `datassay purify` can be told."""

from __future__ import annotations

from dataclasses import dataclass

from datassay.act.purify.settings import Removal
from datassay.commands.inputs import (
    BLOCK_MODEL_HELP,
    DAMPING_HELP,
    MODEL,
    RIDGE_HELP,
    SEED_HELP,
)
from datassay.setting import setting


@dataclass(frozen=True)
class PurifySettings:
    """What the job can be told; every default is what `datassay purify DATA` does."""

    model: str = setting(MODEL, BLOCK_MODEL_HELP)
    order: str = setting(
        Removal.order,
        "Influence adjoint, fixed, step, retrain; label_issues; auto; rivals loss, random.",
    )
    rule: str = setting(
        Removal.stop, "Rule: auto, held_out, validation, inflection, suspects or none.", name="stop"
    )
    ridge: float = setting(Removal.ridge, RIDGE_HELP)
    damping: float = setting(Removal.damping, DAMPING_HELP)
    step: int | None = setting(
        Removal.step, "Samples removed a step (default: one in a hundred, networks one in forty)."
    )
    max_fraction: float = setting(Removal.max_fraction, "Never remove more than this, in (0, 1).")
    min_per_class: int = setting(Removal.min_per_class, "A class is never left with fewer.")
    beyond: int = setting(5, "Steps to look at beyond the stop.")
    rival: bool = setting(True, "Remove by plain loss too, to compare.")
    seed: int = setting(Removal.seed, SEED_HELP)
    command: str = ""
