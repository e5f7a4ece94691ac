"""What `datassay run`, `score` and `summarize` can be told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datassay.act.settings import Keeping
from datassay.collect.settings import Collection, Computing
from datassay.commands.inputs import (
    MODEL,
    MODEL_HELP,
    SEED_HELP,
    gigabytes,
    number_or,
    whole_auto_or_none,
)
from datassay.data.settings import Corruption
from datassay.score.settings import Smoothing, Training
from datassay.setting import setting

OWN_HELP = (
    "Or a scikit-learn estimator, sklearn.ensemble:HistGradientBoostingClassifier: it judges the "
    "labels and is retrained in the comparisons; other scores are those of the auto network."
)


@dataclass(frozen=True)
class TrainingSettings:
    """The network, how its linearised training goes, and the memory that may take."""

    model: str = setting(MODEL, f"{MODEL_HELP} {OWN_HELP}")
    weights: Path | None = setting(None, ".safetensors or state dict, trained on OTHER data.")
    allow_trained: bool = setting(
        Collection.allow_trained, of="datassay.collect.collection:collect.allow_trained"
    )
    lr: float | str = setting(
        Training.lr,
        of="datassay.score.leave_one_out:leave_one_out.lr",
        read=lambda text: number_or(text, "auto", "lr"),
    )
    steps: int = setting(Training.steps, "Training steps of the linearised network.")
    weight_decay: float = setting(
        Training.weight_decay, of="datassay.score.leave_one_out:leave_one_out.weight_decay"
    )
    reduction: str = setting(Training.reduction, "sum or mean loss: what lr and decay refer to.")
    dynamics: str = setting(
        Training.dynamics, of="datassay.score.leave_one_out:leave_one_out.dynamics"
    )
    label_noise: str = setting(
        "auto",
        "Sought in the labels: as often in every class, uniform; depending on it, class; auto.",
    )
    memory: float | None = setting(
        Collection.memory, "GB to stay within (default: what is free).", read=gigabytes
    )
    seed: int = setting(Collection.seed, SEED_HELP)
    command: str = ""
    own: Any = None  # the scikit-learn model that `model` named; a network then stands beside it
    given: Any = None  # the user's network, or what makes one; `model` is then only its name

    @property
    def dynamics_settings(self) -> dict[str, Any]:
        """The arguments that `leave_one_out` takes."""
        names = ("lr", "steps", "weight_decay", "reduction", "dynamics")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class RunSettings(TrainingSettings):
    """What the main job can be told; every default is what `datassay run DATA` does."""

    smoothing: str = setting(
        Smoothing.smoothing, "Which information: functional, isotropic, fisher, sgd or kl."
    )
    sigma: float = setting(
        Smoothing.sigma, of="datassay.score.sample_information:sample_information.sigma"
    )
    batch_size: int | None = setting(
        Smoothing.batch_size, "Of the SGD asked about; for --smoothing sgd and kl only."
    )
    attribution: str = setting(
        "auto",
        "Effect on each validation output, margin or loss; none; or auto: the output, of several "
        "targets the loss, and none where that takes minutes.",
    )
    attribution_at: str = setting(
        "start",
        "Effects in the linearised network, exactly: start; at trained ones, to first order: "
        "trained.",
    )
    top: int = setting(5, "Samples kept a validation sample and direction.")
    subsets: int = setting(
        0, "Random subsets a size to average information over (8 or more); 0 is none."
    )
    projection: int | str | None = setting(
        Collection.projection,
        "auto, none (exact), or features a tensor.",
        read=lambda text: whole_auto_or_none(text, "projection"),
    )
    outputs: str = setting(
        Collection.outputs, "auto, joint, averaged, or mixed (averaged features) over the outputs."
    )
    rank_correlation: float | None = setting(
        None, "With exact scores; the smallest projection that reaches it is taken."
    )
    products: str = setting(Collection.products, of="datassay.collect.collection:collect.products")
    device: str = setting(Collection.device, of="datassay.collect.collection:collect.device")
    curve_seeds: int = setting(5, "Networks retrained a point; 0 skips retraining.")
    budget: float = setting(
        60.0,
        "Seconds for the removal curve, and as many for the acts, predicted for two cores: "
        "fewer networks, then none.",
    )
    before: Path | None = setting(
        None,
        "The --out of the run that was reviewed, where DATA is what datassay apply made: the same "
        "samples are held out, and what the review gained stands on top of the page.",
    )
    check: int = setting(0, "Samples to really retrain without, to check the scores by; 0 is none.")
    store: str | None = setting(
        Computing.store, "Folder or URL that keeps finished work: the same command then goes on."
    )
    engine: str = setting(
        Computing.engine, "Where chunks are computed: in_process, processes or ray; same numbers."
    )
    address: str | None = setting(
        Computing.address, "Of a running Ray cluster (default: one of its own, here)."
    )
    workers: int | None = setting(
        Computing.workers, "Of processes, or of a Ray started here (default: by cores)."
    )

    @property
    def collection_settings(self) -> dict[str, Any]:
        """The arguments that `collect` and `plan_collection` share."""
        names = ("projection", "outputs", "memory", "products", "device")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class ScoreSettings(RunSettings):
    """A run that trains no network: what needs trained ones is fixed and no option."""

    curve_seeds: int = 0
    budget: float = 60.0
    before: Path | None = None
    check: int = 0
    attribution_at: str = "start"


@dataclass(frozen=True)
class KeepSettings:
    """Which samples `datassay summarize` keeps."""

    fraction: float = setting(0.5, "Of the samples to keep, in (0, 1].")
    rule: str = setting(
        Keeping.rule, "fit, boundary, margin, random, information, or auto: the best on held-out."
    )
    iterative: bool = setting(
        Keeping.iterative, "By information, scored again after every 5 % removed."
    )
    drop_suspects: bool = setting(True, "Remove likely label errors first.")


@dataclass(frozen=True)
class AdversarialInputs:
    """Inputs replaced on purpose."""

    adversarial: float = setting(0.0, "Fraction of training inputs to replace by adversarial ones.")
    epsilon: float = setting(Corruption.epsilon, "Largest change of an adversarial input's value.")
