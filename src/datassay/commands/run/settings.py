"""What the main job can be told, and what is refused before any work is done."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datassay.collect.engine.choose import check_engine
from datassay.collect.jacobian.device import check_device
from datassay.errors import SettingError
from datassay.score.attribution import check_top
from datassay.score.compare.projection_quality import check_correlation
from datassay.score.compare.retraining_check import FEWEST
from datassay.score.information.average import FEWEST_DRAWS
from datassay.score.linear.dynamics import check_dynamics
from datassay.score.linear.outcome import OUTCOMES
from datassay.score.sample_information import check_smoothing

ATTRIBUTIONS = ("auto", "none", *OUTCOMES)
ATTRIBUTED_AT = ("start", "trained")


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What the main job can be told; every default is what `datassay run DATA` does.

    Attributes:
        model: as for `build_model`.
        weights: checkpoint to start from, or None for initial weights.
        allow_trained: linearise even at weights that have seen these labels, with a warning.
        lr: learning rate, or "auto".
        steps: of the linearised training.
        weight_decay: of the loss as reduced.
        reduction: "sum" or "mean" loss.
        dynamics: "flow", "descent" or "converged".
        projection: "auto", None or features a tensor.
        outputs: "auto", "joint" or "averaged".
        rank_correlation: choose the smallest projection whose information ranks some samples so
            much as exact information does; None chooses by size alone.
        memory: bytes to stay within, or None.
        products: "auto", "float64", "float32" or "bfloat16": of products over all rows.
        device: of Jacobians and those products, "cpu", "cuda" or "cuda:1".
        smoothing: which information: "functional", "isotropic", "fisher" or "sgd".
        sigma: of the smoothing noise.
        batch_size: of SGD, for smoothing "sgd" only.
        attribution: effect of each sample on what of each validation sample: "output", "margin",
            "loss", "auto" (the output, of several targets the loss) or "none".
        attribution_at: "start", exactly in the linearised network, or "trained", to second order at
            the networks trained on all samples.
        top: samples to keep a validation sample and direction.
        curve_seeds: networks a ranking and fraction; 0 retrains nothing.
        subsets: random subsets a size that information is averaged over; 0 is none.
        check: samples to really retrain without, to check the scores by; 0 is none.
        seed: of weights, projection, batches and random rankings.
        store: folder or fsspec URL that keeps finished work, or None.
        engine: who computes: "in_process", "processes" or "ray".
        address: of a running Ray cluster, or None.
        workers: of the engine, or None.
        command: what to print on the page as the command to repeat this.
    """

    model: str = "mlp"
    weights: Path | None = None
    allow_trained: bool = False
    lr: float | str = "auto"
    steps: int = 2000
    weight_decay: float = 0.0
    reduction: str = "sum"
    dynamics: str = "flow"
    projection: int | str | None = "auto"
    outputs: str = "auto"
    rank_correlation: float | None = None
    memory: float | None = None
    products: str = "auto"
    device: str = "cpu"
    smoothing: str = "functional"
    sigma: float = 1.0
    batch_size: int | None = None
    attribution: str = "auto"
    attribution_at: str = "start"
    top: int = 5
    curve_seeds: int = 5
    subsets: int = 0
    check: int = 0
    seed: int = 0
    store: str | None = None
    engine: str = "in_process"
    address: str | None = None
    workers: int | None = None
    command: str = ""

    @property
    def dynamics_settings(self) -> dict[str, Any]:
        """The arguments that `leave_one_out` takes."""
        names = ("lr", "steps", "weight_decay", "reduction", "dynamics")
        return {name: getattr(self, name) for name in names}

    @property
    def smoothing_settings(self) -> dict[str, Any]:
        """The arguments of `sample_information` that say which measure."""
        names = ("smoothing", "sigma", "batch_size")
        return {name: getattr(self, name) for name in names}

    @property
    def collection_settings(self) -> dict:
        """The arguments that `collect` and `plan_collection` share."""
        names = ("projection", "outputs", "memory", "products", "device")
        return {name: getattr(self, name) for name in names}


def check_settings(settings: RunSettings) -> None:
    """Refuse, before any work is done, what can be judged without the samples.

    Args:
        settings: of a run.

    Raises:
        SettingError: a setting is outside its rule.
    """
    if settings.curve_seeds < 0:
        raise SettingError(
            f"curve_seeds must be at least 0; got {settings.curve_seeds}. 0 retrains nothing."
        )
    _check_retraining(settings)
    if settings.subsets and settings.subsets < FEWEST_DRAWS:
        raise SettingError(
            f"subsets must be at least {FEWEST_DRAWS} a size, so that every sample is drawn twice, "
            f"or 0 for none; got {settings.subsets}."
        )
    check_engine(settings.engine, settings.workers, settings.address)
    check_smoothing(settings.smoothing, settings.sigma, settings.batch_size)
    check_top(settings.top)
    check_device(settings.device)
    _check_attribution(settings)
    if settings.rank_correlation is not None:
        check_correlation(settings.rank_correlation)
        if settings.projection != "auto":
            raise SettingError(
                "rank_correlation chooses the projection, which must then be auto; got "
                f"{settings.projection}. Leave one of them out."
            )
    if settings.memory is not None and not settings.memory > 0:
        raise SettingError(
            f"memory must be a positive number of gigabytes; got {settings.memory / 1e9:g}. Leave "
            "it out to use what is free."
        )
    # The kernel is not known yet: with the smallest eigenvalue only the other rules can fail.
    named = {"kind" if k == "dynamics" else k: v for k, v in settings.dynamics_settings.items()}
    check_dynamics(sys.float_info.min, 2, **named)


def _check_attribution(settings: RunSettings) -> None:
    if settings.attribution not in ATTRIBUTIONS:
        names = ", ".join(ATTRIBUTIONS)
        raise SettingError(f"attribution must be one of {names}; got {settings.attribution!r}.")
    if settings.attribution_at not in ATTRIBUTED_AT:
        raise SettingError(
            f"attribution_at must be start or trained; got {settings.attribution_at!r}."
        )
    if settings.attribution_at == "trained" and not settings.curve_seeds:
        raise SettingError(
            "attribution_at trained needs networks that were trained; got curve_seeds 0. Set it to "
            "at least 1, or attribution_at to start."
        )


def _check_retraining(settings: RunSettings) -> None:
    if settings.check and settings.check < FEWEST:
        raise SettingError(
            f"check must be at least {FEWEST} samples, or 0 for none; got {settings.check}."
        )
    if settings.check and settings.dynamics == "converged":
        raise SettingError(
            "check retrains by as many updates as the linearised run has; a converged one has no "
            "number. Take dynamics flow or descent."
        )
