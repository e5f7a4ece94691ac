"""Settings of the scores, each default once; nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import dataclass, fields

from datassay.errors import SettingError
from datassay.train.recipe import Descent

# Samples stored per query and direction, where the whole matrix of effects is not.
DEFAULT_TOP = 20
NOISES = ("auto", "uniform", "class")  # of labels
OUTCOMES = ("output", "margin", "loss")  # that effects are on


def check_top(top: int | None) -> None:
    """Refuse to keep less than one sample per query."""
    if top is not None and top < 1:
        raise SettingError(f"top must be at least 1, or None for the whole matrix; got {top}.")


@dataclass(frozen=True)
class Training(Descent):
    """The training run of the linearised network.

    Attributes:
        lr: learning rate of the loss as reduced, or "auto".
        reduction: "sum" or "mean" loss.
        dynamics: "flow", "descent" or "converged".
    """

    lr: float | str = "auto"
    reduction: str = "sum"
    dynamics: str = "flow"


RUN = tuple(one.name for one in fields(Training))


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
    """What is attributed, and how much of it is kept.

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
        share: of the expected mean squared effect that a row's numbers hold, where the width
            allows it.
        width: numbers per row, at most.
        keep: type of these numbers, "float32", "float16" or "int8".
        gradient_precision: of the gradients, "float32" or "float64".
        top: samples a query and direction that an index answers with.
    """

    share: float = 0.99
    width: int = 2048
    keep: str = "float16"
    gradient_precision: str = "float32"
    top: int | None = DEFAULT_TOP
