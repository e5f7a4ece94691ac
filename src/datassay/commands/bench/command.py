"""`datassay bench`: the library's claims, or whether its scores hold for the user's own data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from datassay.commands.command import Command, refuse_others
from datassay.commands.inputs import (
    MODEL,
    MODEL_HELP,
    SEED_HELP,
    DataInputs,
    PlanInputs,
    whole_auto_or_none,
)
from datassay.data.settings import Loading
from datassay.setting import setting
from datassay.train.recipe import Recipe

HOME = "datassay.commands.bench"


@dataclass(frozen=True)
class ClaimSettings:
    """What the job can be told; every default is what `datassay bench` does."""

    case: tuple[str, ...] = setting(
        (),
        "Without DATA: leave-one-out, retraining, fidelity, labels, weights or polynomial; may be "
        "repeated.",
        show="all",
    )
    seed: int = setting(Loading.seed, SEED_HELP)
    command: str = ""


@dataclass(frozen=True)
class TrustSettings:
    """What the job can be told; every default is what `datassay bench DATA` does."""

    model: str = setting(MODEL, MODEL_HELP)
    weights: Path | None = setting(
        None, ".safetensors or state dict that every training starts from (default: drawn anew)."
    )
    optimizer: str = setting(Recipe.optimizer, "That trains the networks: adam or sgd.")
    lr: float = setting(Recipe.lr, "Its step size, of the mean loss of a batch.")
    steps: int = setting(Recipe.steps, "Updates of a training.")
    batch_size: int | None = setting(
        Recipe.batch_size,
        "Samples an update; none: all.",
        read=lambda text: whole_auto_or_none(text, "batch-size", auto=False),
    )
    weight_decay: float = setting(Recipe.weight_decay, "Penalty towards the first weights.")
    minutes: float = setting(3.0, "Of retraining; scores take their own time.")
    halves: int | None = setting(
        None, "Random halves of the samples to train on (default: what the minutes allow)."
    )
    n_queries: int = setting(
        200, "Samples held out whose predictions are asked about, at most.", name="queries"
    )
    store: str | None = setting(
        None, "Folder that keeps finished networks' results: the same command then goes on."
    )
    seed: int = setting(Loading.seed, SEED_HELP)
    command: str = ""

    @property
    def recipe(self) -> Recipe:
        """How the networks are trained."""
        return Recipe(
            self.optimizer, self.lr, self.steps, self.batch_size, weight_decay=self.weight_decay
        )


class _Bench(Command):
    """DATA asks whether scores hold for them; without, the library's claims are measured."""

    def start(self, given: Mapping[str, Any], out: Path) -> None:
        """Choose by the data, and refuse options of the other mode."""
        if given.get("data") is None and given.get("data_option") is None:
            for others in (TrustSettings, DataInputs, PlanInputs):
                refuse_others(given, others, (ClaimSettings,), "needs DATA to check")
            CLAIMS.start(given, out)
        else:
            mode = (TrustSettings, DataInputs, PlanInputs)
            refuse_others(given, ClaimSettings, mode, "is measured without DATA")
            TRUST.start(given, out)


COMMAND = _Bench(
    name="bench",
    help="""Check on your data whether scores predict retraining; or measure the library's claims.

    With DATA: trains networks on random halves of the samples and says how well each score
    predicts them, beside loss alone and the ceiling: trust, with care, or do not trust. Minutes.
    Without: six cases, each against the plain way; about 15 seconds on two cores. Writes
    bench.parquet, summary.json and one page.

    Examples:
      datassay bench digits --model mlp:width=64

      datassay bench table.csv --target label --model my.py:network --lr 0.01 --minutes 5

      datassay bench photos/ --model cnn --halves 50 --store kept

      datassay bench

      datassay bench --case leave-one-out --case labels --seed 1 --out measured
    """,
    settings=TrustSettings,
    inputs=(ClaimSettings, DataInputs, PlanInputs),
    home=HOME,
    out="bench",
    order=100,
)
CLAIMS = Command(
    name=COMMAND.name, help="", settings=ClaimSettings, home=f"{HOME}.claims", out=COMMAND.out,
    inputs=(),
)  # fmt: skip
TRUST = replace(
    CLAIMS, settings=TrustSettings, home=f"{HOME}.trust", inputs=(DataInputs, PlanInputs)
)
