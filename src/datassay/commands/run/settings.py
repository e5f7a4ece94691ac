"""What `datassay run`, `score` and `summarize` takes."""

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from datassay.act.settings import KEEP_RULES, Keeping
from datassay.collect.settings import (
    OUTPUTS,
    PRODUCTS,
    Collection,
    Computing,
    check_device_name,
    check_engine,
)
from datassay.commands.inputs import (
    MODEL,
    MODEL_HELP,
    SEED_HELP,
    check_file,
    gigabytes,
    number_or,
    whole_auto_or_none,
)
from datassay.data.settings import Corruption
from datassay.optional import coalesce
from datassay.rules import at_least, fraction, in_interval, one_of, positive, require
from datassay.score.settings import (
    FEWEST_CHECKED,
    FEWEST_DRAWS,
    NOISES,
    OUTCOMES,
    Smoothing,
    Training,
    check_correlation,
    check_noise,
    check_top,
    check_training,
)
from datassay.setting import setting

MOST_NETWORKS = 1000
LOO = "datassay.score.leave_one_out:leave_one_out."
COLLECT = "datassay.collect.collection:collect."
OWN_HELP = (
    "Also a scikit-learn estimator, as sklearn.ensemble:HistGradientBoostingClassifier: it scores "
    "the labels and is retrained in the comparisons; other scores are those of the auto network."
)


@dataclass(frozen=True)
class TrainingSettings:
    """The network, how its linearised training goes, and the memory that may take."""

    model: str = setting(MODEL, f"{MODEL_HELP} {OWN_HELP}")
    weights: Path | None = setting(
        None,
        "Weights to start from (.safetensors or a state dict), trained on OTHER data.",
        rule=check_file,
    )
    allow_trained: bool = setting(Collection.allow_trained, of=f"{COLLECT}allow_trained")
    lr: float | str = setting(
        Training.lr,
        of=f"{LOO}lr",
        read=lambda text: number_or(text, "auto", "lr"),
        needs="rule=information",
    )
    steps: int = setting(
        Training.steps,
        "Steps of gradient descent of the linearised network.",
        needs="rule=information !dynamics=converged",
    )
    weight_decay: float = setting(
        Training.weight_decay, of=f"{LOO}weight_decay", needs="rule=information"
    )
    reduction: str = setting(
        Training.reduction,
        "Loss over samples: sum or mean, for --lr too; mean_same_penalty as S1's code has it.",
        needs="rule=information",
    )
    dynamics: str = setting(Training.dynamics, of=f"{LOO}dynamics", needs="rule=information")
    label_noise: str = setting(
        "auto",
        "Wrong labels to look for: uniform (as often in every class), class (depending on it) or "
        "auto.",
        needs="drop_suspects",
    )
    memory: float | None = setting(
        Collection.memory, "Memory to stay within, in GB (default: what is free).", read=gigabytes
    )
    seed: int = setting(Collection.seed, SEED_HELP)
    command: str = ""
    estimator: Any = None  # the user's scikit-learn model; a network then stands with it
    network: Any = None  # the user's network, or what makes one; `model` is then only its name
    is_open: bool = False  # no model was named: actions are retrained with what predicts best
    table_model: str = ""  # that which did, where it is none of the networks

    @property
    def dynamics_settings(self) -> dict[str, Any]:
        """The arguments that `leave_one_out` takes."""
        names = ("lr", "steps", "weight_decay", "reduction", "dynamics")
        return {name: getattr(self, name) for name in names}

    def refuse(self, *, only_plan: bool) -> None:
        """Check the values by themselves, before anything heavy is imported."""
        check_training(**self.dynamics_settings)


@dataclass(frozen=True)
class RunSettings(TrainingSettings):
    """Settings of the main job; the defaults are those of `datassay run DATA`."""

    smoothing: str = setting(
        Smoothing.smoothing,
        "Noise that information is measured by: functional, isotropic, fisher, sgd, sgd_outputs, "
        "langevin or kl.",
    )
    sigma: float = setting(
        Smoothing.sigma, of="datassay.score.sample_information:sample_information.sigma"
    )
    batch_size: int | None = setting(
        Smoothing.batch_size,
        "Batch size in samples, of the SGD that --smoothing sgd, sgd_outputs, langevin and kl ask "
        "about.",
    )
    attribution: str = setting(
        "auto",
        "Effects of training on validation samples, on their output, margin or loss; none; or "
        "auto: output, of several targets loss, and none where that takes minutes.",
        python="measure",
    )
    attribution_at: str = setting(
        "start",
        "Network that these effects are of: start (linearised, exact) or trained (to first order).",
        needs="!attribution=none",
    )
    top: int = setting(
        5,
        "Training samples listed for each validation sample and direction.",
        needs="!attribution=none",
    )
    subsets: int = setting(0, "Random subsets a size to average information over; 0, or from 8.")
    projection: int | str | None = setting(
        Collection.projection,
        "Random features of the gradients: auto, none (exact gradients), or how many a tensor.",
        read=lambda text: whole_auto_or_none(text, "projection"),
    )
    outputs: str = setting(
        Collection.outputs,
        "How several outputs are taken: auto, joint, averaged, or mixed (averaged features).",
    )
    rank_correlation: float | None = setting(
        None, "Rank correlation with exact scores to reach, by the smallest projection that does."
    )
    products: str = setting(Collection.products, of=f"{COLLECT}products")
    device: str = setting(Collection.device, of=f"{COLLECT}device")
    curve_seeds: int = setting(3, "Networks for each point of the removal curve; 0: none.")
    budget: float | None = setting(
        None,
        "Seconds by the clock after which nothing more is retrained; the page names what was left "
        "out. Default: what takes 60 s on two cores for the removal curve and as much for actions, "
        "the same networks on every machine.",
        needs="curve_seeds",
    )
    before: Path | None = setting(
        None,
        "Folder of the run that was reviewed, where DATA is what datassay apply wrote: shows what "
        "the review gained. The same samples are held out.",
    )
    check: int = setting(0, "Samples to retrain without, one each, to check scores; 0: none.")
    store: str | None = setting(
        Computing.store, "Folder or URL that keeps finished work; the same command then goes on."
    )
    engine: str = setting(Computing.engine, "Where to compute: in_process, processes or ray.")
    address: str | None = setting(Computing.address, "Ray cluster to use (default: start one).")
    workers: int | None = setting(
        Computing.workers, "Processes or Ray workers (default: by cores)."
    )

    is_joint: bool = True  # whether samples are left out together, too: pairs, whole groups

    @property
    def collection_settings(self) -> dict[str, Any]:
        """The arguments that `collect` and `plan_collection` share."""
        names = ("projection", "outputs", "memory", "products", "device")
        return {name: getattr(self, name) for name in names}

    def refuse(self, *, only_plan: bool) -> None:
        """Raise if a setting is out of range, before anything heavy is imported."""
        super().refuse(only_plan=only_plan)
        check_noise(self.smoothing, self.sigma, self.batch_size)
        if self.check:
            at_least("check", self.check, FEWEST_CHECKED, why=" samples, or 0 for none")
        if self.subsets:
            purpose = " a size, so that every sample is drawn twice, or 0 for none"
            at_least("subsets", self.subsets, FEWEST_DRAWS, why=purpose)
        one_of("outputs", self.outputs, OUTPUTS)
        one_of("products", self.products, PRODUCTS)
        if self.rank_correlation is not None:
            check_correlation(self.rank_correlation)
        if self.before is not None:
            from datassay.commands.finished import check_run  # which imports this

            check_run(self.before)
        at_least("curve_seeds", self.curve_seeds, 0, remedy="0 retrains nothing.")
        rule = f"be at most {MOST_NETWORKS:,} networks per point"
        require(self.curve_seeds <= MOST_NETWORKS, "curve_seeds", rule, f"{self.curve_seeds:,}")
        if self.budget is not None:
            at_least("budget", self.budget, 0, why=" seconds, or inf")
        require(
            not (self.check and self.dynamics == "converged"), "check", "retrain by as many "
            "updates as the linearised run has", "one that has converged, which has no number",
            remedy="Take dynamics flow or descent.",
        )  # fmt: skip
        check_top(self.top)
        one_of("label-noise", self.label_noise, NOISES)
        one_of("attribution", self.attribution, ("auto", "none", *OUTCOMES))
        one_of("attribution_at", self.attribution_at, ("start", "trained"))
        check_engine(self.engine, self.workers, self.address)
        check_device_name(self.device)
        require(
            self.attribution_at != "trained" or self.curve_seeds, "attribution_at trained",
            "have networks that were trained", "curve_seeds 0",
            remedy="Set it to at least 1, or attribution_at to start.",
        )  # fmt: skip
        name = "rank_correlation chooses the projection, which"
        is_auto = self.rank_correlation is None or self.projection == "auto"
        require(is_auto, name, "then be auto", self.projection, remedy="Leave one of them out.")
        memory = coalesce(self.memory, 1.0)
        rule = "be a positive, finite number of gigabytes"
        remedy = "Leave it out to use what is free."
        require(0 < memory < math.inf, "memory", rule, f"{memory / 1e9:g}", remedy=remedy)


@dataclass(frozen=True)
class ScoreSettings(RunSettings):
    """A run that trains no network: what needs trained ones is fixed and no option."""

    curve_seeds: int = 0
    budget: float | None = None
    before: Path | None = None
    check: int = 0
    attribution_at: str = "start"


@dataclass(frozen=True)
class KeepSettings:
    """Which samples `datassay summarize` keeps."""

    fraction: float = setting(0.5, "Share of the samples to keep, in (0, 1].", rule=fraction)
    rule: str = setting(
        Keeping.rule,
        "Which samples to keep: fit, boundary, margin, random, information, or auto, the best on "
        "held-out samples.",
        rule=partial(one_of, allowed=KEEP_RULES),
    )
    iterative: bool = setting(
        Keeping.iterative,
        "Remove by information, and score again after every 5 % removed.",
        needs="rule=auto|information",
    )
    drop_suspects: bool = setting(True, "Remove likely label errors first.")


@dataclass(frozen=True)
class AdversarialInputs:
    """Options of inputs that are replaced on purpose."""

    adversarial: float = setting(
        0.0,
        "Share of the training inputs to replace by adversarial ones, in [0, 1].",
        python="fraction",
        rule=partial(in_interval, low=0, high=1),
        needs="!before",
    )
    epsilon: float = setting(
        Corruption.epsilon,
        "Largest change of an adversarial input's value, in its own unit.",
        rule=partial(positive, finite=True),
        needs="adversarial",
    )
