"""A sample's loss as a function of the outputs, with its curvature in them.

Every loss here is of one sample, summed over its outputs or tokens; the training loss is the mean
of these over the samples.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from datassay.collect.gradients.batches import (
    IGNORED,
    describe_shape,
    outputs_of,
    targets_of,
    tokens_of,
    weights_of,
)
from datassay.collect.loss import MOST_SUMMED, Loss, LossSettings, loss_named
from datassay.errors import ModelError, SettingError


@dataclass(frozen=True, slots=True)
class Objective(LossSettings):
    """A sample's loss as a function of a model and a batch."""

    name: str  # of a loss, of "auto", or "custom" for a function
    function: Callable[[nn.Module, Any], Tensor] | None = None  # the user's own, (…) → losses [b]
    scale: float | None = None  # of torch's criterion, for each output; None: the loss itself
    # T; of classes, the loss is T ℓ(f / T): above 1, confident samples keep a gradient.
    temperature: float = 1.0
    averaged: bool = True  # whether a scale is divided by the number of outputs, as torch's are
    ignored: int = IGNORED  # the label of places that do not count, as the user's targets have it
    # Where several places have their classes: at the second axis, as torch's criteria have them, or
    # at the last, as transformers'; None: as the targets' shape says.
    classes_second: bool | None = None

    @property
    def kind(self) -> Loss:
        """The loss of one place by its name, with these settings."""
        settings = {field.name: getattr(self, field.name) for field in fields(LossSettings)}
        return replace(loss_named(self.name), **settings)

    @property
    def has_temperature(self) -> bool:
        """Whether a temperature changes this loss: those of values and a user's own have none."""
        return self.kind.compares == "classes"

    @property
    def is_softened(self) -> bool:
        """Whether its temperature changes it."""
        return self.temperature != 1 and self.has_temperature

    def losses(self, model: nn.Module, batch: Any) -> Float[Tensor, " b"]:
        """Return each sample's weighted loss, [b], in nats or half squared output units."""
        if self.function is not None:
            result = self.function(model, batch)
            _check_one_per_sample(result)
            return result
        outputs, targets = self.align(outputs_of(model, batch), self.targets(batch))
        return self.of_outputs(outputs, targets).sum(1) * weights_of(batch, outputs)

    def targets(self, batch: Any) -> Tensor | None:
        """Return a batch's targets; for next-token losses the tokens themselves."""
        if self.kind.is_of_tokens:
            return tokens_of(batch)
        return targets_of(batch)

    def at_places(self, model: nn.Module, batch: Any) -> Float[Tensor, "b places"]:
        """Return each sample's weighted loss per position; at t that of predicting t + 1."""
        if self.function is not None:
            raise SettingError("a loss of your own has no positions; take a loss by name.")
        outputs, targets = self.align(outputs_of(model, batch), self.targets(batch))
        return self.of_outputs(outputs, targets) * weights_of(batch, outputs)[..., None]

    def align(
        self, outputs: Tensor, targets: Tensor | None
    ) -> tuple[Float[Tensor, "b places k"], Tensor]:
        """Return outputs [b, places, k]; targets as classes [b, places] or shaped alike."""
        # Targets that are values have one place, of all outputs.
        if targets is None:
            raise ModelError(
                "a named loss needs the batch's targets as numbers: the last of a tuple, or a "
                "dictionary's 'labels'. Give them, or pass loss=lambda model, batch: [b] losses."
            )
        if self.kind.is_of_tokens:
            # A learnt prompt before the text has outputs and no tokens.
            n_prompt = outputs.shape[1] - targets.shape[1]
            targets = functional.pad(targets, (max(0, n_prompt), 0), value=self.ignored)
            # Token t is predicted by the outputs at t − 1.
            outputs = outputs[:, :-1]
            targets = targets[:, 1:]
        if self.kind.has_one_class:
            return self._align_classes(outputs, targets)
        flat_outputs = outputs.reshape(len(outputs), -1)
        k = flat_outputs.shape[1]
        if not targets.is_floating_point() and targets.ndim == 1 and k > 1:  # classes: one-hot
            targets = targets[:, None] == torch.arange(k).to(targets)
        values = targets.to(outputs).reshape(len(outputs), -1)
        if flat_outputs.shape != values.shape:
            raise ModelError(
                f"{self.name} needs a target for each output; outputs are {list(outputs.shape)}, "
                f"targets {list(targets.shape)}."
            )
        return flat_outputs[:, None], values[:, None]

    def _align_classes(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return outputs [b, places, k], and classes [b, places] or probabilities like outputs."""
        # The class of places that do not count becomes IGNORED.
        if targets.is_floating_point() and outputs.shape[1:] == (1,):
            targets = targets.reshape(-1, 1)
        if targets.is_floating_point() and targets.shape == outputs.shape:
            return self.classes_last(outputs, None), self.classes_last(targets.to(outputs), None)
        by_place = self.classes_last(outputs, targets.shape[1:])
        classes = targets.long().reshape(len(outputs), -1)
        if classes.shape[1] != by_place.shape[1]:
            raise ModelError(
                f"cross_entropy needs a class for each position; outputs are "
                f"{list(outputs.shape)}, targets {list(targets.shape)}."
            )
        return by_place, classes.masked_fill(classes == self.ignored, IGNORED)

    def classes_last(
        self, outputs: Tensor, places: tuple[int, ...] | None
    ) -> Float[Tensor, "b places k"]:
        """Reshape [b, k], [b, *places, k] or [b, k, *places] to [b, places, k]."""
        if outputs.ndim == 2:
            return outputs[:, None]
        classes_second = self.classes_second
        if classes_second is None:
            classes_second = places == outputs.shape[2:] and places != outputs.shape[1:-1]
        if classes_second:
            outputs = outputs.movedim(1, -1)
        return outputs.flatten(1, -2)

    def of_outputs(self, f: Float[Tensor, "b places k"], y: Tensor) -> Float[Tensor, "b places"]:
        """Return the loss at each position; 0 where the label is ignored."""
        t = 1.0
        if self.is_softened:
            t = self.temperature
            f = f / t
        return t * self._output_factor(f.shape[-1]) * self.kind.value(f, y)

    def roots(
        self,
        f: Float[Tensor, "b places k"],
        y: Tensor,
        generator: torch.Generator,
        n_wanted: int = MOST_SUMMED,
    ) -> Iterator[Float[Tensor, "b places k"]]:
        """Return vectors v with Σ v vᵀ the loss's Hessian in the outputs (or in expectation)."""
        # In the mean, from random vectors, where a sample has several places or many outputs.
        weight = self._output_factor(f.shape[-1]) * self.kind.weights(f, y)  # [b, places, 1 or k]
        if self.is_softened:  # the Hessian of T ℓ(f / T)
            f = f / self.temperature
            weight = weight / self.temperature
        return self.kind.roots(f, y, weight, generator, n_wanted)

    def _output_factor(self, k: int) -> float:
        """Return the constant factor of each output's loss."""
        if self.scale is None:
            return 1.0
        scale = self.kind.by_criterion * self.scale
        if self.averaged:
            return scale / k
        return scale


def _check_one_per_sample(losses: object) -> None:
    """Raise SettingError unless the user's function gave losses, [b]."""
    if isinstance(losses, Tensor) and losses.ndim == 1:
        return
    raise SettingError(
        f"loss must give [b], one loss per sample; got {describe_shape(losses)}. Take "
        "reduction='none'."
    )


def is_one_hot(y: Tensor) -> bool:
    """Return whether targets, [..., k], are classes: rows of a single 1 and zeros."""
    if y.ndim < 2 or y.shape[-1] == 1:
        return False
    return bool(((y == 0) | (y == 1)).all() and (y.sum(-1) == 1).all())
