"""What was asked of `influence`, checked."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from datassay.errors import SettingError
from datassay.progress import Progress
from datassay.rules import at_least, require
from datassay.score.settings import TrainedWeights

METHODS = ("auto", "gauss_newton", "exact", "cg", "lissa", "tracin", "segments", "replay")
CURVATURES = ("auto", "blocks", "ekfac", "whole")
# Change of an output, in logits, up to which one removal is believed to be linear.
TRUSTED = 2.0
RESPONSES = ("first_order", "leave_one_out")


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of `influence` besides the samples.

    Attributes:
        models: networks, at least one; until `with_checkpoints` loads them also files of weights.
        method: "auto" is "gauss_newton".
        curvature: of "gauss_newton".
        response: "first_order" or "leave_one_out".
        loss: of the training.
        measure: of the queries.
        damping: "auto", relative or absolute, as the method has it.
        weight_decay: of the training.
        parameters: names of the weights.
        removed: positions, or None.
        top: samples to keep a query.
        precision: or None: as the method has it.
        device: or None.
        seed: of draws.
        progress: called with (step, done, total).
        settings: the method's own.
        temperature: of the loss, by blocks; "auto", or a number.
        clip: norm that the training clipped gradients at; None: not known.
        notes: what the user should know of the request itself.
        unit: factor from the loss of the training to the mean of the samples' losses; where
            training means over tokens, the tokens per sample.
    """

    models: Sequence[Any]
    method: str
    curvature: str
    response: str
    loss: Any
    measure: Any
    damping: float | str
    weight_decay: float
    parameters: str | Sequence[str] | None
    removed: Sequence[int] | np.ndarray | None
    top: int | None
    precision: str | None
    device: str | None
    seed: int
    progress: Progress
    settings: Mapping[str, Any]
    temperature: float | str = TrainedWeights.temperature
    clip: float | None = None
    notes: tuple[str, ...] = ()
    unit: float = 1.0

    def progress_of(self, index: int, n: int) -> Progress:
        """Return the index-th of n networks' progress function, counted within all networks."""
        if n == 1:
            return self.progress
        return lambda step, done, total: self.progress(step, index * total + done, n * total)

    @property
    def takes_gradients(self) -> bool:
        """Whether the method needs only per-sample gradients, so that any batches will do."""
        if self.method == "gauss_newton":
            return self.curvature != "whole"
        return self.method in {"tracin", "segments"}


def check_request(request: Request, function: Callable[..., Any] | None) -> None:
    """Raise if a setting is unknown or out of range; `function`'s parameters are allowed."""
    for name, value, allowed in (
        ("curvature", request.curvature, CURVATURES),
        ("response", request.response, RESPONSES),
        ("precision", request.precision, (None, "float32", "float64")),
    ):
        if value not in allowed:
            names = ", ".join(repr(choice) for choice in allowed if choice)
            raise SettingError(f"{name} must be one of {names}; got {value!r}.")
    settings = []
    if function is not None:
        _, *settings = inspect.signature(function).parameters  # the first is the problem or model
    settings = [name for name in settings if name != "response"]
    unknown = [name for name in request.settings if name not in settings]
    if unknown:
        rule = "takes no settings of its own"
        if settings:
            rule = f"takes {', '.join(settings)}"
        raise SettingError(f"method {request.method!r} {rule}; got {', '.join(unknown)}.")
    check_numbers(request.damping, request.weight_decay, request.temperature)
    require(request.models, "model", "be a network or a list of them", "an empty list")


def check_numbers(damping: float | str, weight_decay: float, temperature: float | str) -> None:
    """Raise if damping, weight decay or temperature is out of range."""
    numbers = [("weight_decay", weight_decay)]
    if not isinstance(damping, str):
        numbers.append(("damping", damping))
    elif damping != "auto":
        raise SettingError(f"damping must be 'auto' or a number; got {damping!r}.")
    for name, value in numbers:
        at_least(name, value, 0, finite=True)
    if temperature != "auto":
        is_number = not isinstance(temperature, str) and 0 < temperature < float("inf")
        rule = "be positive and finite, or 'auto'"
        require(is_number, "temperature", rule, repr(temperature))
