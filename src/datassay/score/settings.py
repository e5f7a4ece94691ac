"""Settings of the scores, each default once; nothing heavy is imported here."""

import math
from dataclasses import dataclass, fields
from typing import TypedDict

from datassay.errors import SettingError
from datassay.rules import integer, one_of, require
from datassay.train.recipe import REDUCTIONS, Descent

# Samples stored per query and direction, where the whole matrix of effects is not.
DEFAULT_TOP = 20
NOISES = ("auto", "uniform", "class")  # of labels
SEARCHES = ("auto", "exact", "approximate")  # of neighbours
SMOOTHINGS = ("functional", "isotropic", "fisher", "sgd", "sgd_outputs", "langevin", "kl")
OF_SGD = ("sgd", "sgd_outputs", "kl")  # smoothings whose noise is that of SGD
BY_STEPS = (*OF_SGD, "langevin")  # that depend on lr and batch_size
GIVEN = "given"  # smoothing by a covariance that is passed
FEWEST_CHECKED = 5  # samples that a check retrains without
FEWEST_DRAWS = 8  # subsets that put every sample into two of the smallest, for any n
REMOVAL_ORDERS = ("fixed", "adjoint", "step", "retrain")  # of the effect of a removal
PLANNED = ("auto", "blocks", "ekfac")  # curvatures of layers
OUTCOMES = ("output", "margin", "loss")  # that effects are on


def check_top(top: int | None) -> None:
    """Raise if less than one sample per query would be kept."""
    if top is not None and top < 1:
        raise SettingError(f"top must be at least 1, or None for the whole matrix; got {top}.")


def check_correlation(target: float) -> None:
    """Raise for a rank correlation outside (0, 1]."""
    require(0 < target <= 1, "rank_correlation", "be in (0, 1]", target, remedy="Try 0.95.")


def check_training(
    lr: float | str, steps: float, weight_decay: float, reduction: str, dynamics: str
) -> None:
    """Raise for settings of a training run that are wrong whatever its kernel."""
    kinds = {"flow", "descent", "converged"}
    require(dynamics in kinds, "dynamics", "be 'flow', 'descent' or 'converged'", repr(dynamics))
    one_of("reduction", reduction, REDUCTIONS)
    if not (1 <= steps < math.inf and steps == int(steps)):
        raise SettingError(f"steps must be a whole number of at least 1; got {steps}.")
    if not (math.isfinite(weight_decay) and weight_decay >= 0):
        raise SettingError(f"weight_decay must be finite and at least 0; got {weight_decay}.")
    if lr != "auto" and (isinstance(lr, str) or not (math.isfinite(lr) and lr > 0)):
        raise SettingError(f"lr must be finite and positive, or 'auto'; got {lr}.")


def check_batch_size(batch_size: int | None) -> None:
    """Raise for a batch size that is no whole number of at least 1."""
    remedy = "Give the batch size of the training that you ask about."
    integer("batch_size", batch_size, remedy=remedy)


def check_noise(smoothing: str, sigma: float, batch_size: int | None) -> None:
    """Raise for an unknown smoothing, or settings that it does not go with."""
    if smoothing not in {*SMOOTHINGS, GIVEN}:
        names = ", ".join(repr(name) for name in SMOOTHINGS)
        raise SettingError(f"smoothing must be one of {names}; got {smoothing!r}.")
    require(math.isfinite(sigma) and sigma > 0, "sigma", "be finite and positive", sigma)
    require(1e-150 < sigma < 1e150, "sigma", "have a square between 1e-300 and 1e300", f"{sigma:g}")
    if smoothing in BY_STEPS and batch_size is None:
        raise SettingError(
            f"batch_size must be given for smoothing={smoothing!r}, as the noise of SGD is "
            "proportional to lr / batch_size; got None."
        )
    if smoothing in (*OF_SGD, GIVEN) and sigma != 1.0:
        scale = "a scale of its own"
        if smoothing in OF_SGD:
            scale = "the scale of lr / batch_size"
        raise SettingError(
            f"sigma must be left at 1 for smoothing={smoothing!r}, whose noise has {scale}; got "
            f"{sigma}."
        )
    if smoothing in BY_STEPS:
        check_batch_size(batch_size)
    elif batch_size is not None:
        raise SettingError(
            "batch_size belongs to smoothing='sgd', sgd_outputs, langevin and kl; got "
            f"{batch_size} with {smoothing!r}."
        )


@dataclass(frozen=True)
class Training(Descent):
    """The training run of the linearised network.

    Attributes:
        lr: learning rate of the loss as reduced, or "auto".
        reduction: "sum" or "mean" loss, or "mean_same_penalty", as S1's code leaves samples out.
        dynamics: "flow", "descent" or "converged".
    """

    lr: float | str = "auto"
    reduction: str = "sum"
    dynamics: str = "flow"


class Run(TypedDict, total=False):
    """`Training` as arguments by name."""

    lr: float | str
    steps: int
    weight_decay: float
    reduction: str
    dynamics: str


RUN = tuple(setting.name for setting in fields(Training))


@dataclass(frozen=True)
class Smoothing:
    """How the information of a sample is defined.

    Attributes:
        smoothing: "functional", "isotropic", "fisher", "sgd", "sgd_outputs", "langevin" or "kl".
        sigma: of the smoothing noise.
        batch_size: of SGD, for the last four only.
    """

    smoothing: str = "functional"
    sigma: float = 1.0
    batch_size: int | None = None


@dataclass(frozen=True)
class Queries:
    """Settings of an attribution: which output is attributed, and how much of it is kept.

    Attributes:
        measure: of each query, "output" (of the predicted class), "margin" (of the given label) or
            "loss".
        top: samples to keep a query and direction; None: the whole matrix where it fits.
    """

    measure: str = "output"
    top: int | None = None


@dataclass(frozen=True)
class Influence:
    """Influence at trained weights.

    Attributes:
        loss: "cross_entropy", "mse" or "auto": by the task.
        ridge: of the training, (ridge/2)‖θ‖² added to the mean loss.
        damping: added to the Hessian; not part of the training.
    """

    loss: str = "auto"
    ridge: float = 0.0
    damping: float = 0.01


@dataclass(frozen=True)
class TrainedWeights:
    """Removal at trained weights.

    Attributes:
        method: "auto" or one by name.
        curvature: "auto", "blocks", "ekfac" or "whole".
        response: "first_order" or "leave_one_out".
        damping: added to the Hessian; "auto": a share of each block's mean eigenvalue.
        temperature: that the outputs of classes are divided by in the loss; "auto": 2, and 1 of
            a language model's tokens and of self-influence.
    """

    method: str = "auto"
    curvature: str = "auto"
    response: str = "first_order"
    damping: float | str = "auto"
    temperature: float | str = "auto"


@dataclass(frozen=True)
class Indexing:
    """What an index keeps of each training sample.

    Attributes:
        bytes_per_sample: of a row, at most, and 4 of its scale.
        gradient_precision: of the gradients, "float32" or "float64".
        top: samples a query and direction that an index answers with.
    """

    bytes_per_sample: int = 4096
    gradient_precision: str = "float32"
    top: int | None = DEFAULT_TOP
