"""A sample's loss as a function of the outputs, with its curvature in them.

Every loss here is of one sample, summed over its outputs or tokens; the training loss is the mean
of these over the samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from datassay.collect.gradients.batches import (
    IGNORED,
    outputs_of,
    targets_of,
    tokens_of,
    weights_of,
)
from datassay.errors import ModelError, SettingError

# Of classes, whose outputs are logits; of values.
OF_CLASSES = ("cross_entropy", "next_token")
OF_VALUES = ("mse", "huber")
# Up to this many outputs per sample, the curvature sums over all of them; beyond, so many vectors
# are drawn, or one where a sample has several places.
MOST_SUMMED, DRAWS = 16, 8


@dataclass(frozen=True, slots=True)
class Objective:
    """A sample's loss as a function of a model and a batch."""

    name: str  # cross_entropy, next_token, bce, mse, huber, or custom
    function: Callable[[nn.Module, Any], Tensor] | None = None  # the user's own, (…) → [b]
    smoothing: float = 0.0  # of the labels, in [0, 1)
    class_weight: Tensor | None = None  # [k], of cross_entropy; of bce, for its positive targets
    scale: float | None = None  # constant factor of each output's loss; None: ½ of mse, else 1
    # T; of classes, the loss is T ℓ(f / T): above 1, confident samples keep a gradient.
    temperature: float = 1.0
    averaged: bool = True  # whether a scale is divided by the number of outputs, as torch's are
    ignored: int = IGNORED  # the label of places that do not count, as the user's targets have it
    output_weight: Tensor | None = None  # [k], nn.BCEWithLogitsLoss(weight=)
    delta: float = 1.0  # of huber, where the loss turns from a square to a line
    # Where several places have their classes: at the second axis, as torch's criteria have them, or
    # at the last, as transformers'; None: as the targets' shape says.
    classes_second: bool | None = None

    @property
    def has_temperature(self) -> bool:
        """Whether a temperature changes this loss: those of values and a user's own have none."""
        return self.name not in {*OF_VALUES, "custom"}

    @property
    def is_softened(self) -> bool:
        """Whether its temperature changes it."""
        return self.temperature != 1 and self.has_temperature

    def losses(self, model: nn.Module, batch: Any) -> Float[Tensor, " b"]:
        """Compute each sample's loss, in nats or half squared output unit, times its weight."""
        if self.function is not None:
            result = self.function(model, batch)
            if not isinstance(result, Tensor) or result.ndim != 1:
                if isinstance(result, Tensor):
                    actual = list(result.shape)
                else:
                    actual = type(result).__name__
                raise SettingError(
                    f"loss must give [b], one loss per sample; got {actual}. Take reduction='none'."
                )
            return result
        outputs, targets = self.align(outputs_of(model, batch), self.targets(batch))
        return self.of_outputs(outputs, targets).sum(1) * weights_of(batch, outputs)

    def targets(self, batch: Any) -> Tensor | None:
        """Return a batch's targets; of next tokens without labels the tokens themselves."""
        if self.name == "next_token":
            return tokens_of(batch)
        return targets_of(batch)

    def at_places(self, model: nn.Module, batch: Any) -> Float[Tensor, "b places"]:
        """Compute each sample's loss at each place; for next tokens, token t + 1's stands at t."""
        if self.function is not None:
            raise SettingError("a loss of your own has no positions; take a loss by name.")
        outputs, targets = self.align(outputs_of(model, batch), self.targets(batch))
        return self.of_outputs(outputs, targets) * weights_of(batch, outputs)[..., None]

    def align(
        self, outputs: Tensor, targets: Tensor | None
    ) -> tuple[Float[Tensor, "b places k"], Tensor]:
        """Return outputs [b, places, k], and classes [b, places] or values [b, places, k]."""
        if targets is None:
            raise ModelError(
                "a named loss needs the batch's targets as numbers: the last of a tuple, or a "
                "dictionary's 'labels'. Give them, or pass loss=lambda model, batch: [b] losses."
            )
        if self.name == "next_token":
            prompt = outputs.shape[1] - targets.shape[1]  # places of a learnt one before the text
            targets = functional.pad(targets, (max(0, prompt), 0), value=self.ignored)
            outputs = outputs[:, :-1]
            targets = targets[:, 1:]
        if self.name in OF_CLASSES:
            return self._align_classes(outputs, targets)
        flat = outputs.reshape(len(outputs), -1)
        if not targets.is_floating_point() and targets.ndim == 1 and flat.shape[1] > 1:
            targets = targets[:, None] == torch.arange(flat.shape[1]).to(targets)
        values = targets.to(outputs).reshape(len(outputs), -1)
        if flat.shape != values.shape:
            raise ModelError(
                f"{self.name} needs a target for each output; outputs are {list(outputs.shape)}, "
                f"targets {list(targets.shape)}."
            )
        return flat[:, None], values[:, None]

    def _align_classes(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return outputs, [b, places, k], and classes [b, places] or probabilities like them."""
        if targets.is_floating_point() and outputs.shape[1:] == (1,):
            targets = targets.reshape(-1, 1)
        if targets.is_floating_point() and targets.shape == outputs.shape:
            return self.classes_last(outputs, None), self.classes_last(targets.to(outputs), None)
        positions = self.classes_last(outputs, targets.shape[1:])
        classes = targets.long().reshape(len(outputs), -1)
        if classes.shape[1] != positions.shape[1]:
            raise ModelError(
                f"cross_entropy needs a class for each position; outputs are "
                f"{list(outputs.shape)}, targets {list(targets.shape)}."
            )
        return positions, classes.masked_fill(classes == self.ignored, IGNORED)

    def classes_last(
        self, outputs: Tensor, places: tuple[int, ...] | None
    ) -> Float[Tensor, "b places k"]:
        """Reshape [b, k], [b, *places, k] or [b, k, *places] to [b, places, k]."""
        if outputs.ndim == 2:
            return outputs[:, None]
        second = self.classes_second
        if second is None:
            second = places == outputs.shape[2:] and places != outputs.shape[1:-1]
        return (outputs.movedim(1, -1) if second else outputs).flatten(1, -2)

    def of_outputs(self, f: Float[Tensor, "b places k"], y: Tensor) -> Float[Tensor, "b places"]:
        """Compute the loss at each place; 0 where the label is one that does not count."""
        weight = None
        if self.class_weight is not None:
            weight = self.class_weight.to(f)
        scale = self._factor(f.shape[-1])
        if self.name == "mse":
            return scale * (f - y).square().sum(-1)
        if self.name == "huber":
            return scale * functional.huber_loss(f, y, reduction="none", delta=self.delta).sum(-1)
        if self.is_softened:
            unscaled = replace(self, temperature=1.0)
            return self.temperature * unscaled.of_outputs(f / self.temperature, y)
        if self.name == "bce":
            output_weight = None
            if self.output_weight is not None:
                output_weight = self.output_weight.to(f)
            call = functional.binary_cross_entropy_with_logits
            return scale * call(f, y, output_weight, pos_weight=weight, reduction="none").sum(-1)
        if f.shape[-1] == 1:
            is_soft = y.is_floating_point()
            if is_soft:
                positive = y[..., 0]
                counts = 1
            else:
                positive = (y == 1).to(f)
                counts = y != IGNORED
            call = functional.binary_cross_entropy_with_logits
            return call(f[..., 0], positive, reduction="none") * counts
        return functional.cross_entropy(
            f.flatten(0, 1),
            y.flatten(0, 1),
            weight,
            reduction="none",
            label_smoothing=self.smoothing,
        ).view(f.shape[:2])

    def roots(
        self, f: Float[Tensor, "b places k"], y: Tensor, generator: torch.Generator
    ) -> Iterator[Float[Tensor, "b places k"]]:
        """Yield vectors v of the outputs with Σ v vᵀ the loss's Hessian in them, S."""
        # All of them for up to MOST_SUMMED outputs and one place per sample; else drawn ones, for
        # which the mean of Σ v vᵀ is S.
        weight = self._weights(f, y)  # [b, places, 1 or k]
        if self.is_softened:  # the Hessian of T ℓ(f / T)
            f = f / self.temperature
            weight = weight / self.temperature
        k = f.shape[-1]
        is_exact = k <= MOST_SUMMED and f.shape[1] == 1
        if self.name in OF_CLASSES and k > 1:
            p = f.softmax(-1)
            if is_exact:
                for c in range(k):
                    unit = p.new_zeros(k)
                    unit[c] = 1
                    yield weight.sqrt() * p[..., c : c + 1].sqrt() * (unit - p)
                return
            draws = 1
            if f.shape[1] == 1:
                draws = DRAWS
            all_draws = torch.multinomial(
                p.flatten(0, 1).cpu(), draws, replacement=True, generator=generator
            )
            for drawn in all_draws.to(f.device).unbind(1):
                unit = functional.one_hot(drawn.view(f.shape[:2]), k)
                yield (weight / draws).sqrt() * (unit - p)
            return
        spread = self._spread(f, y)
        if is_exact:
            for c in range(k):
                unit = functional.one_hot(torch.tensor(c), k).to(f)
                yield weight.sqrt() * spread * unit
            return
        draws = DRAWS if f.shape[1] == 1 else 1
        for _ in range(draws):
            signs = torch.randint(0, 2, f.shape, generator=generator).to(f) * 2 - 1
            yield (weight / draws).sqrt() * spread * signs

    def _spread(self, f: Tensor, y: Tensor) -> Tensor:
        """Return the root of the second derivative by each output, of losses separable in them."""
        if self.name == "mse":
            return torch.ones_like(f)
        if self.name == "huber":
            return ((f - y).abs() < self.delta).to(f)
        p = f.sigmoid()
        return (p * (1 - p)).sqrt()

    def _factor(self, k: int) -> float:
        """Return the constant factor of each output's loss."""
        if self.scale is None:
            if self.name == "mse":
                return 0.5
            return 1.0
        if self.averaged:
            return self.scale / k
        return self.scale

    def _weights(self, f: Tensor, y: Tensor) -> Tensor:
        """Return the factor of the Hessian at each place."""
        ones = torch.ones(*f.shape[:2], 1).to(f)
        scale = self._factor(f.shape[-1])
        weight = None
        if self.class_weight is not None:
            weight = self.class_weight.to(f)
        if self.name in OF_VALUES:
            return ones * (2 * scale if self.name == "mse" else scale)
        if self.name == "bce":
            positive = ones
            if weight is not None:
                positive = 1 + y * (weight - 1)
            if self.output_weight is None:
                output_weight = ones
            else:
                output_weight = self.output_weight.to(f)
            return ones * scale * positive * output_weight
        if y.is_floating_point() and f.shape[-1] > 1:  # probabilities of classes
            label_weight = (y if weight is None else y * weight).sum(-1, keepdim=True)
            mean = 1.0
            if weight is not None:
                mean = weight.mean()
            return (1 - self.smoothing) * label_weight + self.smoothing * mean
        if y.is_floating_point():
            return ones
        counts = ones * (y != IGNORED)[..., None]
        if weight is None or f.shape[-1] == 1:
            return counts
        label_weight = weight[y.clamp_min(0)][..., None]
        return counts * ((1 - self.smoothing) * label_weight + self.smoothing * weight.mean())


def is_one_hot(y: Tensor) -> bool:
    """Return whether targets, [..., k], are classes: rows of a single 1 and zeros."""
    if y.ndim < 2 or y.shape[-1] == 1:
        return False
    return bool(((y == 0) | (y == 1)).all() and (y.sum(-1) == 1).all())
