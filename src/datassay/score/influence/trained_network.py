"""A network at its trained weights, with its training samples and loss: what methods start from."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from datassay.collect.gradients.autograd import evaluate
from datassay.collect.gradients.batches import (
    Batches,
    outputs_of,
    rows,
    targets_of,
    to_model,
    weights_of,
)
from datassay.collect.gradients.blocks import chosen_parameters
from datassay.collect.gradients.criteria import (
    check_classes,
    check_logits,
    objective,
    several_outputs,
)
from datassay.collect.gradients.objective import Objective, is_one_hot
from datassay.collect.gradients.per_sample import PerSample
from datassay.collect.gradients.reading import batches
from datassay.collect.gradients.recording import Gradients
from datassay.collect.jacobian.inputs import takes_integers
from datassay.collect.jacobian.per_sample import typed_copy
from datassay.collect.loss import MOST_SUMMED
from datassay.data.samples import SampleSet
from datassay.optional import coalesce
from datassay.progress import Progress, silent

# Values that the factors of one pass may hold, and samples at most.
PASS_VALUES = 2**23
# Gradients by the outputs that tell the curvature well enough, of all samples and of each.
VECTORS = 3000
FEWEST_VECTORS = 3
LARGEST_PASS = 256
# Samples whose targets decide between labels and values, where the first could be either.
TARGETS_SEEN = 1024
# Temperatures: of classes, which a network learns by heart; of next tokens, as it is never sure.
SOFTENED = 2.0
PLAIN = 1.0


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
        takes_integers: whether it takes arrays of whole numbers.
        n_outputs: k, of classes; None where outputs are values, or the loss is the user's own.
        has_several: whether a sample has several targets, so that "output" names none of them.
        self_influence_loss: loss whose gradients `self_influence` is of; None: `loss`.
        compared: samples whose gradients a whole pass compared with autograd's, which later passes
            do not repeat.
        vectors: gradients by the outputs of a sample that tell the curvature well enough.
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
    takes_integers: bool = False
    n_outputs: int | None = None
    has_several: bool = False
    self_influence_loss: Objective | None = None
    compared: Batches | None = None
    vectors: int = MOST_SUMMED

    @property
    def dtype(self) -> torch.dtype:
        """Type of the weights and their gradients."""
        return next(p.dtype for p in self.model.parameters() if p.is_floating_point())

    @property
    def device(self) -> torch.device:
        """Device of the weights and their gradients."""
        return next(self.model.parameters()).device

    def loss_gradients(self) -> Iterator[tuple[int, Gradients]]:
        """Yield each batch's size and its per-sample gradients of the loss."""
        samples = coalesce(self.removed, self.train)
        is_known = self.compared is samples
        for ids, batch in samples:
            check_classes(self.loss, self.loss.targets(batch), self.n_outputs)
            batch = to_model(batch, self.model)
            gradients = self.per_sample.gradients(
                self.loss.losses, batch, is_known=is_known, as_matrices=True
            )
            yield len(ids), next(gradients)

    def both_gradients(self) -> Iterator[tuple[int, Gradients, Gradients | None]]:
        """Yield batch size, gradients of `loss`, and of `self_influence_loss` (or None)."""
        if self.self_influence_loss is None:
            yield from ((size, gradients, None) for size, gradients in self.loss_gradients())
            return
        losses = (self.loss, self.self_influence_loss)

        def values(model: nn.Module, data: Any) -> Tensor:  # [b, 2]
            f, y = self.loss.align(outputs_of(model, data), self.loss.targets(data))
            return torch.stack([a.of_outputs(f, y).sum(1) * weights_of(data, f) for a in losses], 1)

        samples = coalesce(self.removed, self.train)
        for ids, batch in samples:
            check_classes(self.loss, self.loss.targets(batch), self.n_outputs)
            gradients, own_grads = self.per_sample.gradients(
                values,
                to_model(batch, self.model),
                lambda v: torch.eye(2, device=v.device)[:, None].expand(2, len(v), 2),
                is_known=self.compared is samples,
                as_matrices=True,
            )
            yield len(ids), gradients, own_grads

    def roots(self, seed: int, step: str) -> Iterator[Gradients]:
        """Yield gradients J_iᵀ v whose outer products sum to n times the Hessian H."""
        # One batch and one v at a time. H is the loss's Gauss–Newton Hessian. Where it is drawn
        # (many outputs), that holds in the mean; each pass draws the same.
        generator = torch.Generator().manual_seed(seed)
        is_known = self.compared is self.train
        done = 0
        for ids, batch in self.train:
            if self.loss.kind.compares != "own":
                check_classes(self.loss, self.loss.targets(batch), self.n_outputs)
            batch = to_model(batch, self.model)
            drawn = weights_at(self.train, done, len(ids)).to(self.dtype)
            done += len(ids)
            if self.loss.kind.compares == "own":
                root = drawn.sqrt()
                yield from self.per_sample.gradients(
                    self.loss.losses, batch, lambda v, root=root: [root.to(v)], is_known=is_known
                )
            else:
                targets: list[Tensor] = []  # aligned ones, that `values` hands to `vectors`
                weight = weights_of(batch, next(self.model.parameters()))
                scale = (weight * drawn.to(weight)).sqrt().view(-1, 1, 1)

                def values(model: nn.Module, data: Any, targets: list[Tensor] = targets) -> Tensor:
                    f, y = self.loss.align(outputs_of(model, data), self.loss.targets(data))
                    targets.append(y)
                    return f

                def vectors(
                    f: Tensor, targets: list[Tensor] = targets, scale: Tensor = scale
                ) -> list[Tensor]:
                    return [
                        v * scale for v in self.loss.roots(f, targets[0], generator, self.vectors)
                    ]

                yield from self.per_sample.gradients(values, batch, vectors, is_known=is_known)
            self.progress(step, min(done, self.n), self.n)
        if not self.train.is_streamed:
            self.compared = self.train


def trained_network(
    model: nn.Module,
    train: Any,
    *,
    loss: Any,
    parameters: str | Sequence[str] | None,
    precision: str,
    device: str | None,
    progress: Progress,
    direct: Collection[str] | None = None,
) -> TrainedNetwork:
    """Return a copy of the network with its per-sample gradients, batches and loss."""
    # direct: tensors that no layer may give gradients of, so that blocks are another network's.
    # train: anything that `batches` takes.
    copied = typed_copy(model, getattr(torch, precision))
    if device is not None:
        copied = copied.to(device)
    selected = chosen_parameters(copied, parameters)
    as_integers = isinstance(train, SampleSet) and takes_integers(copied, train.x[:1])
    samples = batches(train, 2, as_integers=as_integers)
    _, first_batch = next(iter(samples))
    example = to_model(rows(first_batch, slice(0, 2)), copied)
    task = _infer_loss(train)
    targets = targets_of(example)
    more_targets = []
    if task is None and targets is not None:
        more_targets = _read_targets(samples, targets)
    training_loss = objective(loss, copied, example, task, more_targets)
    k = count_class_outputs(training_loss, copied, example)
    check_classes(training_loss, training_loss.targets(example), k)
    messages = check_logits(loss, training_loss, copied, example)
    outputs = None
    if training_loss.kind.compares != "own":
        messages += several_outputs(copied, example)
        outputs = outputs_of
    values = training_loss.losses
    if outputs and targets is None and not training_loss.kind.is_of_tokens:
        values = _sums
    per_sample = PerSample(copied, selected, example, values, outputs, direct)
    pass_size = max(1, min(LARGEST_PASS, PASS_VALUES // per_sample.values_held))
    samples = batches(train, pass_size, as_integers=as_integers)
    n = samples.n
    if n is None:
        n = sum(len(ids) for ids, _ in samples)
    notes = train.warnings if isinstance(train, SampleSet) else samples.warnings
    per_sample.warnings.extend((*notes, *messages))
    return TrainedNetwork(
        copied, per_sample, samples, training_loss, n, progress, per_sample.warnings,
        pass_size=pass_size, takes_integers=as_integers, n_outputs=k,
        has_several=_has_several_targets(training_loss, copied, example),
        vectors=max(FEWEST_VECTORS, -(-VECTORS // n)),
    )  # fmt: skip


def _has_several_targets(loss: Objective, model: nn.Module, batch: Any) -> bool:
    """Return whether each sample has several numbers or labels as its target."""
    if loss.kind.has_one_class or loss.kind.compares == "own":
        return False
    with torch.no_grad():
        outputs = evaluate(model, batch, outputs_of)
        targets = loss.targets(batch)
    is_class = targets is not None and not targets.is_floating_point() and targets.ndim == 1
    one_hot = loss.kind.compares == "values" and targets is not None and is_one_hot(targets)
    return outputs[:1].numel() > 1 and not is_class and not one_hot


def _sums(model: nn.Module, batch: Any) -> Tensor:
    """Return a value for samples without targets: the sum of their outputs."""
    return outputs_of(model, batch).flatten(1).sum(1)


def _infer_loss(train: Any) -> str | None:
    """Return the loss that "auto" means for a SampleSet; None: the targets must decide."""
    if not isinstance(train, SampleSet):
        return None
    if train.is_classification:
        return "cross_entropy"
    if train.y.ndim == 1 and train.y.dtype.kind == "f":
        return "mse"
    return None


def _read_targets(parts: Batches, example: Tensor) -> list[Tensor]:
    """Return further batches' targets, where `example` may be labels or values; else []."""
    if not (example.is_floating_point() or example.ndim == 2):
        return []
    results = []
    n_seen = 0
    for _, batch in parts:
        targets = targets_of(batch)
        if targets is None or n_seen >= TARGETS_SEEN:
            break
        results.append(targets.to(example))
        n_seen += len(targets)
    return results


def count_class_outputs(loss: Objective, model: nn.Module, batch: Any) -> int | None:
    """Count the outputs per position, one per class; None where the loss has no classes."""
    if loss.kind.compares == "own":
        return None
    with torch.no_grad():
        outputs = evaluate(model, batch, outputs_of)
        targets = loss.targets(batch)
    if not loss.kind.has_one_class:  # squared error may be of classes
        is_label = targets is not None and targets.ndim == 1 and not targets.is_floating_point()
        if is_label and outputs.ndim == 2 and outputs.shape[1] > 1:
            return outputs.shape[1]
        return None
    positions = None
    if targets is not None:
        positions = targets.shape[1:]
    return loss.classes_last(outputs, positions).shape[-1]


def weights_at(samples: Batches, start: int, size: int) -> Tensor:
    """Return the weights in the mean loss of samples start ... start + size; 1 by default."""
    if samples.weights is None:
        return torch.ones(size, dtype=torch.float64)
    return torch.from_numpy(samples.weights[start : start + size])


def apply_temperature(loss: Objective, temperature: float | str) -> Objective:
    """Return T ℓ(f / T) for a training loss ℓ of classes; other losses as they are."""
    if not loss.has_temperature:
        return loss
    if isinstance(temperature, str):
        temperature = PLAIN if loss.kind.is_of_tokens else SOFTENED
    return replace(loss, temperature=float(temperature))


def soften_loss(network: TrainedNetwork, temperature: float | str) -> None:
    """Set the network's loss to the softened one; "auto" keeps it for self-influence."""
    training_loss = network.loss
    network.loss = apply_temperature(training_loss, temperature)
    is_auto = isinstance(temperature, str)
    if not is_auto and network.loss.temperature != temperature:
        name = "your own" if training_loss.function else repr(training_loss.name)
        network.warnings.append(
            f"temperature={temperature:g} was not applied: it is of losses of classes, and this "
            f"one is {name}."
        )
    network.self_influence_loss = None
    if is_auto and network.loss.temperature != training_loss.temperature:
        network.self_influence_loss = training_loss


def describe_temperature(network: TrainedNetwork) -> str:
    """Return the temperature in words, to follow the method's name; "" where none softens."""
    effects = network.loss.temperature
    if effects == 1 or not network.loss.has_temperature:
        return ""
    self_loss = network.self_influence_loss
    own_temperature = "" if self_loss is None else f" ({self_loss.temperature:g} of self-influence)"
    return f", temperature {effects:g}{own_temperature}"
