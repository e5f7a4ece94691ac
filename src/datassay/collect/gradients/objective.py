"""Losses of batches as their users have them: by name, as a torch criterion, or as a function.

Every loss here is of one sample, summed over its outputs or tokens; the training loss is the mean
of these over the samples. A criterion's own weights and smoothing are read from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from datassay.collect.gradients.batches import mapped
from datassay.errors import ModelError, SettingError

LOSSES = ("cross_entropy", "mse", "bce", "next_token")
# Up to this many outputs a sample, the curvature sums over all of them; beyond, so many vectors are
# drawn, or one where a sample has several places.
MOST_SUMMED, DRAWS = 16, 8
IGNORED = -100  # a token's label that does not count, as in torch
TARGETS = ("labels", "label")
LOSS_WEIGHT = "loss_weight"  # of a sample in the training loss, where the batch has this field
CAUSAL = ("CausalLM", "LMHead")  # in the names of language models' classes
# What transformers' configurations call a task, once the model has seen its labels.
PROBLEMS = {
    "regression": "mse",
    "single_label_classification": "cross_entropy",
    "multi_label_classification": "bce",
}


@dataclass(frozen=True, slots=True)
class Objective:
    """A sample's loss as a function of a model and a batch.

    Attributes:
        name: of LOSSES, or "custom".
        function: (model, batch) → [b], where the loss is the user's own.
        smoothing: of the labels, in [0, 1).
        class_weight: [k] or None, of cross_entropy; of bce, for its positive targets.
        scale: constant factor of the loss: of nn.MSELoss, which averages over outputs.
        temperature: T; of classes, the loss is T ℓ(f / T). At 1 it is ℓ; above, samples that the
            network fits with much confidence keep a gradient.
    """

    name: str
    function: Callable[[nn.Module, Any], Tensor] | None = None
    smoothing: float = 0.0
    class_weight: Tensor | None = None
    scale: float | None = None
    temperature: float = 1.0

    def losses(self, model: nn.Module, batch: Any) -> Float[Tensor, " b"]:
        """Each sample's loss.

        Args:
            model: the network.
            batch: of b samples.

        Returns:
            Loss unit: nats, or half squared output unit; times a sample's own weight, where the
            batch says one.

        Raises:
            SettingError: the user's function does not give [b].
        """
        if self.function is not None:
            found = self.function(model, batch)
            if not isinstance(found, Tensor) or found.ndim != 1:
                got = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
                raise SettingError(
                    f"loss must give [b], one loss a sample; got {got}. Take reduction='none'."
                )
            return found
        outputs, targets = self.placed(outputs_of(model, batch), targets_of(batch))
        return self.of_outputs(outputs, targets).sum(1) * weights_of(batch, outputs)

    def at_places(self, model: nn.Module, batch: Any) -> Float[Tensor, "b places"]:
        """Each sample's loss at each of its places: their sum is its loss.

        Args:
            model: the network.
            batch: of b samples.

        Returns:
            Loss unit; of next tokens, the loss of token t + 1 stands at t.

        Raises:
            SettingError: the loss is the user's own, which says nothing of places.
        """
        if self.function is not None:
            raise SettingError("a loss of your own has no places; take a loss by name.")
        outputs, targets = self.placed(outputs_of(model, batch), targets_of(batch))
        return self.of_outputs(outputs, targets) * weights_of(batch, outputs)[..., None]

    def placed(
        self, outputs: Tensor, targets: Tensor | None
    ) -> tuple[Float[Tensor, "b places k"], Tensor]:
        """Outputs and targets by place: one a sample, or one a token.

        Args:
            outputs: [b, k], or [b, tokens, k].
            targets: classes [b] or [b, tokens]; values [b, k].

        Returns:
            [b, places, k], and classes [b, places] or values [b, places, k].

        Raises:
            ModelError: the targets do not fit the outputs.
        """
        if targets is None:
            raise ModelError(
                "a named loss needs the batch's targets: the last of a tuple, or a dictionary's "
                "'labels'. Give them, or pass loss=lambda model, batch: [b] losses."
            )
        if self.name == "next_token":
            outputs, targets = outputs[:, :-1], targets[:, 1:]
        if self.name in {"cross_entropy", "next_token"}:
            places = outputs[:, None] if outputs.ndim == 2 else outputs
            classes = targets.long().reshape(len(outputs), -1)
            if classes.shape[1] != places.shape[1]:
                raise ModelError(
                    f"cross_entropy needs a class for each place; outputs are "
                    f"{list(outputs.shape)}, targets {list(targets.shape)}."
                )
            return places, classes
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

    def of_outputs(self, f: Float[Tensor, "b places k"], y: Tensor) -> Float[Tensor, "b places"]:
        """The loss at each place.

        Args:
            f: outputs.
            y: targets, as `placed` gives them.

        Returns:
            0 where the label is one that does not count.
        """
        weight = None if self.class_weight is None else self.class_weight.to(f)
        if self.name == "mse":
            scale = 0.5 if self.scale is None else self.scale / f.shape[-1]
            return scale * (f - y).square().sum(-1)
        if self.temperature != 1:
            plain = replace(self, temperature=1.0)
            return self.temperature * plain.of_outputs(f / self.temperature, y)
        if self.name == "bce":
            scale = 1.0 if self.scale is None else self.scale / f.shape[-1]
            call = functional.binary_cross_entropy_with_logits
            return scale * call(f, y, pos_weight=weight, reduction="none").sum(-1)
        if f.shape[-1] == 1:
            return functional.binary_cross_entropy_with_logits(
                f[..., 0], (y == 1).to(f), reduction="none"
            ) * (y != IGNORED)
        return functional.cross_entropy(
            f.flatten(0, 1),
            y.flatten(),
            weight,
            reduction="none",
            label_smoothing=self.smoothing,
        ).view(y.shape)

    def roots(
        self, f: Float[Tensor, "b places k"], y: Tensor, generator: torch.Generator
    ) -> Iterator[Float[Tensor, "b places k"]]:
        """Vectors v of the outputs with Σ v vᵀ the loss's Hessian in them, S.

        Args:
            f: outputs.
            y: targets.
            generator: for the draws where outputs are many: then the mean of v vᵀ is S.

        Yields:
            For up to MOST_SUMMED outputs of one place a sample, all; else drawn ones.
        """
        weight = self._weights(f, y)  # [b, places, 1 or k]
        if self.name != "mse":  # the Hessian of T ℓ(f / T)
            f, weight = f / self.temperature, weight / self.temperature
        k = f.shape[-1]
        whole = k <= MOST_SUMMED and f.shape[1] == 1
        if self.name in {"cross_entropy", "next_token"} and k > 1:
            p = f.softmax(-1)
            if whole:
                for c in range(k):
                    unit = functional.one_hot(torch.tensor(c), k).to(p)
                    yield weight.sqrt() * p[..., c : c + 1].sqrt() * (unit - p)
                return
            draws = DRAWS if f.shape[1] == 1 else 1
            every = torch.multinomial(
                p.flatten(0, 1).cpu(), draws, replacement=True, generator=generator
            )
            for drawn in every.to(f.device).unbind(1):
                unit = functional.one_hot(drawn.view(y.shape), k)
                yield (weight / draws).sqrt() * (unit - p)
            return
        p = f.sigmoid()
        spread = torch.ones_like(f) if self.name == "mse" else (p * (1 - p)).sqrt()
        if whole:
            for c in range(k):
                unit = functional.one_hot(torch.tensor(c), k).to(f)
                yield weight.sqrt() * spread * unit
            return
        draws = DRAWS if f.shape[1] == 1 else 1
        for _ in range(draws):
            signs = torch.randint(0, 2, f.shape, generator=generator).to(f) * 2 - 1
            yield (weight / draws).sqrt() * spread * signs

    def _weights(self, f: Tensor, y: Tensor) -> Tensor:
        """Factor of the Hessian at each place."""
        one = torch.ones(*f.shape[:2], 1).to(f)
        if self.name == "mse":
            return one * (1.0 if self.scale is None else 2 * self.scale / f.shape[-1])
        if self.name == "bce":
            scale = 1.0 if self.scale is None else self.scale / f.shape[-1]
            weight = self.class_weight
            return one * scale if weight is None else scale * (1 + y * (weight.to(f) - 1))
        counts = one * (y != IGNORED)[..., None]
        if self.class_weight is None or f.shape[-1] == 1:
            return counts
        weight = self.class_weight.to(f)
        given = weight[y.clamp_min(0)][..., None]
        return counts * ((1 - self.smoothing) * given + self.smoothing * weight.mean())


def objective(loss: Any, model: nn.Module, batch: Any, task: str | None = None) -> Objective:
    """The loss of a task, from what the user calls it.

    Args:
        loss: "auto", of LOSSES, a criterion of torch (nn.CrossEntropyLoss with its weight and
            smoothing, nn.BCEWithLogitsLoss, nn.MSELoss), or (model, batch) → [b]; an Objective
            whose name may be "auto".
        model: the network; "auto" takes next_token for a causal language model.
        batch: a first one: the type of its targets decides "auto".
        task: what "auto" is, where the samples say it.

    Returns:
        The loss.

    Raises:
        SettingError: it is none of these.
    """
    if isinstance(loss, Objective):
        known = loss.name != "auto"
        return loss if known else replace(loss, name=task or _by_targets(model, batch))
    if isinstance(loss, nn.Module):
        return _of_criterion(loss)
    if callable(loss):
        function: Any = loss
        return Objective("custom", function)
    if loss == "auto":
        return Objective(task or _by_targets(model, batch))
    if loss not in LOSSES:
        raise SettingError(
            f"loss must be 'auto', {', '.join(map(repr, LOSSES))}, a criterion of torch or a "
            f"function of the model and a batch; got {loss!r}."
        )
    return Objective(loss)


def _of_criterion(loss: nn.Module) -> Objective:
    if isinstance(loss, nn.CrossEntropyLoss):
        if loss.ignore_index != IGNORED:
            raise SettingError(
                f"ignore_index must be {IGNORED}; got {loss.ignore_index}. Change these labels to "
                f"{IGNORED}."
            )
        return Objective("cross_entropy", None, loss.label_smoothing, loss.weight)
    if isinstance(loss, nn.BCEWithLogitsLoss):
        return Objective("bce", class_weight=loss.pos_weight, scale=1.0)
    if isinstance(loss, nn.MSELoss):
        return Objective("mse", scale=1.0)
    raise SettingError(
        f"loss must be a criterion that is known; got {type(loss).__name__}. Pass "
        "loss=lambda model, batch: criterion(...) with one loss a sample."
    )


def _by_targets(model: nn.Module, batch: Any) -> str:
    targets = targets_of(batch)
    base = getattr(model, "get_base_model", lambda: model)()  # of peft's adapters
    if any(word in type(base).__name__ for word in CAUSAL):
        return "next_token"
    told = getattr(getattr(model, "config", None), "problem_type", None)
    if told in PROBLEMS:
        return PROBLEMS[told]
    if targets is None:
        raise SettingError(
            "loss='auto' needs the batch's targets: the last of a tuple, or a dictionary's "
            "'labels'. Give them, or pass loss=lambda model, batch: [b] losses."
        )
    if not targets.is_floating_point():
        return "bce" if targets.ndim == 2 and set(targets.unique().tolist()) <= {0, 1} and (
            _output_axes(model, batch) == 2
        ) else "cross_entropy"  # fmt: skip
    return "mse"


def _output_axes(model: nn.Module, batch: Any) -> int:
    with torch.no_grad():
        return outputs_of(model, batch).ndim


def outputs_of(model: nn.Module, batch: Any) -> Tensor:
    """What the model gives for a batch: its logits.

    Args:
        model: called with the batch's tensors, targets left out; by name where it is a dictionary.
        batch: (x, ..., targets), or a dictionary with "labels".

    Returns:
        Its output, its `.logits`, or the first of several; one axis more where it is [b].

    Raises:
        ModelError: there is no tensor in what it gives.
    """
    if isinstance(batch, Mapping):
        left_out = {*TARGETS, LOSS_WEIGHT}
        given = {key: value for key, value in batch.items() if key not in left_out}
        shifted = getattr(model, "prepare_decoder_input_ids_from_labels", None)
        if shifted is not None and "decoder_input_ids" not in given:  # an encoder and a decoder
            given["decoder_input_ids"] = shifted(labels=targets_of(batch))
        found = model(**given)
    else:
        parts = tuple(batch) if isinstance(batch, tuple | list) else (batch,)
        found = model(*(parts[:-1] if len(parts) > 1 else parts))
    found = getattr(found, "logits", found)
    if isinstance(found, Mapping):
        found = found.get("logits")
    if isinstance(found, tuple | list):
        found = found[0]
    if not isinstance(found, Tensor):
        raise ModelError(
            f"the model must give a tensor, or logits; got {type(found).__name__}. Pass loss= and "
            "measure= as functions of the model and a batch."
        )
    return found[:, None] if found.ndim == 1 else found


def targets_of(batch: Any) -> Tensor | None:
    """The batch's targets.

    Args:
        batch: as in `outputs_of`.

    Returns:
        The last of a tuple; of a dictionary its "labels", or its input_ids where there are none,
        padding not counted; None where there are none.
    """
    if isinstance(batch, Mapping):
        for name in TARGETS:
            if batch.get(name) is not None:
                return batch[name]
        ids, mask = batch.get("input_ids"), batch.get("attention_mask")
        if ids is None or mask is None:
            return ids
        return ids.masked_fill(mask == 0, IGNORED)
    return batch[-1] if isinstance(batch, tuple | list) and len(batch) > 1 else None


def weights_of(batch: Any, like: Tensor) -> Tensor:
    """The samples' own weights in the training loss.

    Args:
        batch: as in `outputs_of`.
        like: whose precision they get.

    Returns:
        [b] of a dictionary with "loss_weight"; else a 1.
    """
    given = batch.get(LOSS_WEIGHT) if isinstance(batch, Mapping) else None
    return torch.ones(()).to(like) if given is None else given.to(like)


def to_model(batch: Any, model: nn.Module) -> Any:
    """The batch on the model's device and in its precision; whole numbers stay what they are.

    Args:
        batch: of tensors.
        model: the network.

    Returns:
        The batch.
    """
    like = next(p for p in model.parameters() if p.is_floating_point())
    return mapped(batch, lambda t: t.to(like) if t.is_floating_point() else t.to(like.device))
