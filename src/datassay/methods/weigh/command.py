"""`datassay weigh`."""

from dataclasses import dataclass
from pathlib import Path

from datassay.commands.command import Command
from datassay.commands.inputs import MODEL, MODEL_HELP, SEED_HELP, DataInputs, NoiseInputs
from datassay.methods.weigh.settings import METHODS, Weighting
from datassay.rules import at_least, one_of, require
from datassay.score.settings import SEARCHES
from datassay.setting import setting


@dataclass(frozen=True)
class WeighSettings:
    """Settings of the job; the defaults are those of `datassay weigh DATA`."""

    model: str = setting(MODEL, MODEL_HELP)
    method: str = setting(
        "local_variance",
        "local_variance, balanced_variance, class_balanced, self_paced or active_bias.",
    )
    features: str = setting(
        "auto",
        "Where neighbours are searched: inputs, model (what enters the network's last layer), or "
        "auto: inputs for rows of at most 50 columns.",
    )
    n_neighbors: int = setting(
        Weighting.n_neighbors,
        "Number of neighbours, the sample itself included: at least 2.",
        name="neighbors",
    )
    max_ratio: float = setting(
        Weighting.max_ratio, "m, the heaviest weight over the lightest possible."
    )
    search: str = setting(Weighting.search, "Neighbours: exact, approximate or auto.")
    density: bool = setting(
        Weighting.density, "Divide by the density of the samples.", needs="method=local_variance"
    )
    tune: int = setting(
        0,
        "Trials of a search of k and m (needs the package optuna); 0: none.",
        needs="method=local_variance !features=inputs",
    )
    seeds: int = setting(10, "Trainings with and without the weights; 0 does not try them.")
    weights: Path | None = setting(
        None,
        ".safetensors or state dict of the trained network (default: train it).",
        needs="!method=active_bias",  # which watches the network while it is trained
    )
    seed: int = setting(Weighting.seed, SEED_HELP)
    command: str = ""

    def refuse(self, *, only_plan: bool) -> None:
        """Raise if a setting is out of range, before anything heavy is imported."""
        one_of("method", self.method, METHODS)
        one_of("search", self.search, SEARCHES)
        one_of("features", self.features, ("auto", "inputs", "model"))
        at_least("n_neighbors", self.n_neighbors, 2)
        at_least("max_ratio", self.max_ratio, 1)
        tune, seeds = self.tune, self.seeds
        rule = "be at least 0, and seeds 0 (do not try the weights) or at least 2"
        require(tune >= 0 and seeds >= 0 and seeds != 1, "tune", rule, f"{tune} and {seeds}")


COMMAND = Command(
    name="weigh",
    common="target ids noise model method seeds weights n_neighbors seed",
    help="""Weigh the training samples, and see whether that helps a network.

    Writes weights.parquet (one row per sample, sample_weight with mean 1), summary.json and one
    page.

    Examples:
      datassay weigh moons --out weights
      datassay weigh table.parquet --target label --ids key --neighbors 30 --max-ratio 20
      datassay weigh photos/ --model lenet5 --weights trained.safetensors
      datassay weigh digits --method active_bias --out uncertain
    """,
    settings=WeighSettings,
    inputs=(NoiseInputs, DataInputs),
    out="weights",
    order=40,
)
