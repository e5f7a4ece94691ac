"""`datassay bench`: whether scores hold for the user's own data."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datassay.commands.command import Command
from datassay.commands.inputs import MODEL, MODEL_HELP, SEED_HELP, check_file, whole_auto_or_none
from datassay.data.settings import Loading, check_seed
from datassay.errors import SettingError
from datassay.rules import at_least, in_interval, one_of, positive
from datassay.setting import setting
from datassay.train.recipe import Recipe


@dataclass(frozen=True)
class TrustSettings:
    """Settings of the job; the defaults are those of `datassay bench DATA`."""

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
        read=lambda text: whole_auto_or_none(text, "batch-size", allows_auto=False),
    )
    weight_decay: float = setting(Recipe.weight_decay, "Penalty towards the first weights.")
    minutes: float = setting(3.0, "Of retraining; scores take their own time.", needs="!halves")
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

    def refuse(self, *, only_plan: bool) -> None:
        """Raise if a setting is out of range, before anything heavy is imported."""
        check_seed(self.seed)
        in_interval("minutes", self.minutes, 0, 1e6, "(]")
        in_interval("steps", self.steps, 1, 1_000_000)
        at_least("queries", self.n_queries, 2)
        one_of("optimizer", self.optimizer, ("adam", "sgd"))
        positive("lr", self.lr)
        at_least("weight_decay", self.weight_decay, 0)
        if self.weights is not None:
            check_file("weights", self.weights)

    @property
    def recipe(self) -> Recipe:
        """The recipe by which the networks are trained."""
        return Recipe(
            self.optimizer, self.lr, self.steps, self.batch_size, weight_decay=self.weight_decay
        )


class _Bench(Command):
    """A command whose error, where no DATA are given, names the suite `python -m bench`."""

    def start(self, user_input: Mapping[str, Any], out: Path) -> None:
        """Run the check; raise first if no DATA are given."""
        if user_input.get("data") is None and user_input.get("data_option") is None:
            raise SettingError(
                "DATA must be given once, as an argument or as --data; see --help. In a clone of "
                "the repository, python -m bench runs the development suite."
            )
        super().start(user_input, out)


COMMAND = _Bench(
    name="bench",
    common="target model weights lr steps minutes store seed",
    help="""Check on your data whether scores predict retraining.

    Trains networks on random halves of the samples and says how well each score predicts them,
    compared with loss alone and the ceiling: trust, with care, or do not trust. Minutes. Writes
    bench.parquet, summary.json and one page.

    Examples:
      datassay bench digits --model mlp:width=64
      datassay bench table.csv --target label --model my.py:network --lr 0.01 --minutes 5
      datassay bench photos/ --model cnn --halves 50 --store store
    """,
    settings=TrustSettings,
    home="datassay.commands.bench.trust",
    out="bench",
)
