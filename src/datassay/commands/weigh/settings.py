"""What the job of `datassay weigh` can be told, and what is refused before any work is done."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from datassay.act.weigh.methods import METHODS, NEEDS_CLASSES
from datassay.act.weigh.weights import check_ratios
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.score.neighbors.search import check_n_neighbors, check_search

FEATURES = ("auto", "inputs", "model")


@dataclass(frozen=True, slots=True)
class WeighSettings:
    """What the job can be told; every default is what `datassay weigh DATA` does.

    Attributes:
        method: "local_variance", "class_balanced", "self_paced" or "active_bias".
        features: where neighbours are searched: "inputs", "model" (what enters the network's last
            layer) or "auto": inputs for rows of at most 50 columns, unless weights or tune are set.
        model: as for `build_model`.
        weights: of a trained network, taken as it is; None: the network is trained here.
        n_neighbors: k, the sample itself among them.
        max_ratio: m.
        search: as for `nearest_neighbors`.
        density: whether to divide by the density.
        tune: trials of a search of k and m; 0: none.
        seeds: trainings with and without weights, to see whether they help; 0: none.
        seed: of weights and batches.
        command: what to print on the page as the command to repeat this.
    """

    method: str = "local_variance"
    features: str = "auto"
    model: str = "mlp"
    weights: Path | None = None
    n_neighbors: int = 20
    max_ratio: float = 40
    search: str = "auto"
    density: bool = False
    tune: int = 0
    seeds: int = 10
    seed: int = 0
    command: str = ""


def check_weigh_settings(settings: WeighSettings, train: SampleSet) -> None:
    """Refuse, before any work is done, what cannot be.

    Args:
        settings: of the job.
        train: the training samples.

    Raises:
        SettingError: a setting is outside its rule, or two do not go together.
    """
    for name, value, allowed in (
        ("method", settings.method, tuple(METHODS)),
        ("features", settings.features, FEATURES),
    ):
        if value not in allowed:
            raise SettingError(f"{name} must be one of {', '.join(allowed)}; got {value!r}.")
    check_n_neighbors(settings.n_neighbors, len(train))
    check_search(settings.search)
    check_ratios(settings.max_ratio)
    if settings.tune < 0 or settings.seeds < 0 or settings.seeds == 1:
        raise SettingError(
            "tune must be at least 0, and seeds 0 (do not try the weights) or at least 2; got "
            f"{settings.tune} and {settings.seeds}."
        )
    local = settings.method == "local_variance"
    if settings.tune and (not local or settings.features == "inputs"):
        raise SettingError(
            "tune searches k and m of local variance by retraining a last layer; got method "
            f"{settings.method!r}, features {settings.features!r}. Leave both out."
        )
    if settings.density and not local:
        raise SettingError(
            f"density corrects local variance only; got method {settings.method!r}. Leave it out."
        )
    if settings.method in NEEDS_CLASSES and not train.is_classification:
        raise SettingError(
            f"method {settings.method!r} needs classes; the targets are numbers. Take "
            "local_variance."
        )
    if settings.method == "active_bias" and settings.weights is not None:
        raise SettingError(
            "active_bias watches the network while it is trained; with --weights it is not. Leave "
            "them out."
        )
