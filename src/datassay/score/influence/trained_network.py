"""A network at its trained weights, with its training samples and loss: what methods start from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from datassay.collect.curvature.output_loss import task_loss
from datassay.collect.gradients.batches import Batches, batches, rows
from datassay.collect.gradients.blocks import chosen_parameters
from datassay.collect.gradients.objective import (
    Objective,
    objective,
    outputs_of,
    targets_of,
    to_model,
    weights_of,
)
from datassay.collect.gradients.per_sample import Gradients, PerSample
from datassay.collect.jacobian.inputs import takes_integers
from datassay.collect.jacobian.per_sample import frozen_copy
from datassay.data.samples import SampleSet
from datassay.progress import Progress, silent

# Values that the factors of one pass may hold, and samples at most.
PASS_VALUES, LARGEST_PASS = 2**22, 256
# Classes that a network has learnt by heart; next tokens, of which it never is sure.
SOFTENED, PLAIN = 2.0, 1.0


@dataclass(slots=True)
class TrainedNetwork:
    """A network at its trained weights, with what it was trained on.

    Attributes:
        model: a copy, in evaluation mode.
        per_sample: its gradients.
        train: n samples.
        loss: of the training.
        n: samples.
        progress: called with (step, samples done, samples in all).
        warnings: what the user should know.
        removed: the samples whose removal is asked about; None: all.
        pass_size: samples a pass.
        integers: whether it takes arrays of whole numbers.
    """

    model: nn.Module
    per_sample: PerSample
    train: Batches
    loss: Objective
    n: int
    progress: Progress = silent
    warnings: list[str] = field(default_factory=list)
    removed: Batches | None = None
    pass_size: int = 1
    integers: bool = False

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights and their gradients."""
        return next(p.dtype for p in self.model.parameters() if p.is_floating_point())

    def loss_gradients(self) -> Iterator[tuple[int, Gradients]]:
        """Each batch's number of samples to remove, and the gradients of their losses."""
        for ids, batch in self.train if self.removed is None else self.removed:
            found = self.per_sample.gradients(self.loss.losses, to_model(batch, self.model))
            yield len(ids), next(found)

    def roots(self, seed: int, step: str) -> Iterator[Gradients]:
        """Gradients whose squares add up to the loss's Gauss–Newton Hessian.

        Args:
            seed: of the draws where outputs are many; each pass draws the same.
            step: for progress.

        Yields:
            J_iᵀ v with Σ v vᵀ = S_i; of a user's own loss, ∇ℓ_i themselves.
        """
        generator = torch.Generator().manual_seed(seed)  # the same draws in every pass
        done = 0
        for ids, batch in self.train:
            batch = to_model(batch, self.model)
            done += len(ids)
            if self.loss.name == "custom":
                yield from self.per_sample.gradients(self.loss.losses, batch)
            else:
                seen: list[Tensor] = []  # the targets by place
                scale = weights_of(batch, next(self.model.parameters())).sqrt().view(-1, 1, 1)

                def values(model: nn.Module, part: Any, seen: list[Tensor] = seen) -> Tensor:
                    f, y = self.loss.placed(outputs_of(model, part), targets_of(part))
                    seen.append(y)
                    return f

                def vectors(
                    f: Tensor, seen: list[Tensor] = seen, scale: Tensor = scale
                ) -> list[Tensor]:
                    return [v * scale for v in self.loss.roots(f, seen[0], generator)]

                yield from self.per_sample.gradients(values, batch, vectors)
            self.progress(step, min(done, self.n), self.n)


def trained_network(
    model: nn.Module,
    train: Any,
    *,
    loss: Any,
    parameters: str | Sequence[str] | None,
    precision: str,
    device: str | None,
    progress: Progress,
) -> TrainedNetwork:
    """Prepare a network for its gradients.

    Args:
        model: at its trained weights; copied.
        train: its training samples, as `batches` takes them.
        loss: as in `objective`.
        parameters: as in `chosen_parameters`.
        precision: "float32" or "float64".
        device: to compute on; None: where the model is.
        progress: called with (step, samples done, samples in all).

    Returns:
        The network.

    Raises:
        ModelError: it cannot be copied or run, or its losses mix samples.
        SettingError: the loss or the parameters are unknown.
    """
    copied = frozen_copy(model, getattr(torch, precision))
    if device is not None:
        copied = copied.to(device)
    chosen = chosen_parameters(copied, parameters)
    integers = isinstance(train, SampleSet) and takes_integers(copied, train.x[:1])
    _, first = next(iter(batches(train, 2, integers=integers)))
    few = to_model(rows(first, slice(0, 2)), copied)
    task = task_loss(train) if isinstance(train, SampleSet) else None
    bound = objective(loss, copied, few, task)
    per_sample = PerSample(copied, chosen, few, bound.losses)
    size = max(1, min(LARGEST_PASS, PASS_VALUES // per_sample.values_held))
    parts = batches(train, size, integers=integers)
    n = parts.n if parts.n is not None else sum(len(ids) for ids, _ in parts)
    return TrainedNetwork(
        copied, per_sample, parts, bound, n, progress, per_sample.warnings, None, size, integers
    )


def softened(loss: Objective, temperature: float | str) -> Objective:
    """The training loss ℓ as T ℓ(f / T).

    Args:
        loss: of the training.
        temperature: T, or "auto".

    Returns:
        The loss to attribute by.
    """
    if isinstance(temperature, str):
        temperature = PLAIN if loss.name == "next_token" else SOFTENED
    return replace(loss, temperature=float(temperature))
