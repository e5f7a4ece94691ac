"""`datassay purify`."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from datassay.commands.command import Command, settings_from
from datassay.commands.inputs import (
    BLOCK_MODEL_HELP,
    DAMPING_HELP,
    MODEL,
    RIDGE_HELP,
    SEED_HELP,
    DataInputs,
    NoiseInputs,
)
from datassay.methods.purify.settings import ORDERS, STOPS, Removal
from datassay.rules import at_least, fraction, one_of
from datassay.setting import setting

OPEN = partial(fraction, ends="()")


@dataclass(frozen=True)
class PurifySettings:
    """Settings of the job; the defaults are those of `datassay purify DATA`."""

    model: str = setting(MODEL, BLOCK_MODEL_HELP)
    order: str = setting(
        Removal.order,
        "auto; cross_fit; influence adjoint, fixed, step, retrain; label_issues; baselines loss, "
        "random.",
        rule=partial(one_of, allowed=ORDERS),
    )
    rule: str = setting(
        Removal.stop,
        "Rule: auto, held_out, validation, inflection, suspects or none.",
        name="stop",
        rule=partial(one_of, allowed=STOPS),
    )
    ridge: float | None = setting(
        Removal.ridge,
        RIDGE_HELP + " Default: by cross_fit the best of six, else 0.0001.",
        rule=partial(at_least, minimum=0),
    )
    damping: float = setting(Removal.damping, DAMPING_HELP, rule=partial(at_least, minimum=0))
    step: int | None = setting(
        Removal.step, "Samples removed per step (default: one in a hundred, networks one in forty)."
    )
    max_fraction: float = setting(
        Removal.max_fraction, "Never remove more than this, in (0, 1).", rule=OPEN
    )
    min_per_class: int = setting(Removal.min_per_class, "A class is never left with fewer.")
    beyond: int = setting(5, "Steps to look at beyond the stop.", needs="rule=auto|held_out")
    baseline: bool = setting(True, "Remove by plain loss too, to compare.")
    seed: int = setting(Removal.seed, SEED_HELP)
    command: str = ""


class _Purify(Command):
    """A command whose removals `datassay apply` carries out."""

    def arguments(self, user_input: Mapping[str, Any]) -> dict[str, Any]:
        """Return the samples, and how they were read."""
        from datassay.commands.finished import origin_of

        arguments = super().arguments(user_input)
        inputs = settings_from(DataInputs, user_input)
        noise = settings_from(NoiseInputs, user_input)
        return arguments | {"origin": origin_of(inputs, noise, arguments["train"])}


COMMAND = _Purify(
    name="purify",
    common="target ids val_fraction noise model order rule max_fraction seed",
    help="""Remove samples that follow another rule than the majority, until none is left.

    Writes purified.parquet (one row per sample), keep.parquet, trace.parquet, summary.json and one
    page. A validation part that came with the data decides when to stop; without one no clean set
    is needed.

    Examples:
      datassay purify sd2 --out purified
      datassay purify digits --noise 0.3 --noise-kind pair --out noisy
      datassay purify table.parquet --target label --ids key --max-fraction 0.3
    """,
    settings=PurifySettings,
    inputs=(NoiseInputs, DataInputs),
    out="purified",
    order=20,
)
