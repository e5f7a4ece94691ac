"""Training of many small networks in one batched program, each on its own subset of the samples."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from datassay.collect.curvature.output_loss import check_n_outputs, task_loss
from datassay.collect.jacobian.inputs import network_inputs
from datassay.collect.jacobian.per_sample import frozen_copy
from datassay.collect.jacobian.suitable import one_output, run_vectorized
from datassay.collect.loss import loss_named
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import ModelError, SettingError
from datassay.progress import Progress, silent
from datassay.results import result
from datassay.rules import at_least, one_of, positive
from datassay.train.batches import Batch, batches, multiply_weights
from datassay.train.dense_training import DenseGradients, DenseStack, FunctionSpace, dense_stack
from datassay.train.recipe import Recipe

TASK = "run for many networks at once"  # in errors
CHUNK = 4096  # samples that networks are run on at a time
ADAM: Any = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0, "fused": True}
ADAM |= {"amsgrad": False, "maximize": False}
SGD: Any = {"weight_decay": 0.0, "momentum": 0.0, "dampening": 0.0, "nesterov": False}
SGD |= {"maximize": False}


@result
class TrainedNetworks:
    """S networks of one architecture with their weights stacked.

    Attributes:
        template: the architecture; its own weights are not used.
        state: parameter and buffer name → [S, *shape].
    """

    template: nn.Module
    state: dict[str, Tensor]

    def outputs(self, x: Shaped[np.ndarray | Tensor, "m ..."]) -> Float[Tensor, "S m k"]:
        """Return every network's outputs on the same inputs, on the CPU."""
        precision = next(t.dtype for t in self.state.values() if t.is_floating_point())
        x = network_inputs(x, self.template, precision)
        with torch.no_grad(), run_vectorized(TASK):
            run = vmap(lambda state: functional_call(self.template, state, (x,)))
            return run(self.state).cpu()

    def outputs_in_parts(self, x: Shaped[np.ndarray | Tensor, "m ..."]) -> Float[Tensor, "S m k"]:
        """Return the outputs in float64, for any number of inputs."""
        parts = torch.as_tensor(x).split(CHUNK)
        return torch.cat([self.outputs(chunk).double() for chunk in parts], 1)

    def subset(self, networks: slice) -> "TrainedNetworks":
        """Select some of the networks."""
        return TrainedNetworks(self.template, {n: t[networks] for n, t in self.state.items()})


@checks_arguments
def train_networks(
    models: Sequence[nn.Module],
    train: SampleSet,
    subsets: Int[Tensor, "S kept"],
    recipe: Recipe,
    *,
    seed: int = 0,
    sample_weight: Tensor | Callable[[Tensor], Tensor] | None = None,
    observe: Callable[[Tensor, Tensor], None] | None = None,
    progress: Progress = silent,
) -> TrainedNetworks:
    """Train S networks at once, network s on the samples subsets[s].

    Args:
        models: S networks of one architecture; their weights are the starting points. They are
            copied and run in evaluation mode (batch norm frozen, dropout off), as linearised;
            weights that the first does not train (requires_grad False) stay as they are. They train
            on its device, in the order and to the numbers, up to rounding, of the processor.
        train: the training samples.
        subsets: positions in train, the same number for every network.
        recipe: optimiser, steps, batch size and loss.
        seed: of the batch order; network s uses the stream (seed, s).
        sample_weight: of each sample in the loss of a batch, Σ w_i ℓ_i / batch: [n] or [S, n],
            scaled to mean 1 over each network's subset; or, for weights that change, a function of
            the batch's positions [S, batch], called before each update.
        observe: called after the gradients of each batch and before its update with positions
            [S, batch] and outputs [S, batch, k], in main memory, to be read at once. Full batches
            that hold most samples give all n to every network, also those it leaves out.
        progress: called with (step, updates done, updates in all).

    Returns:
        The trained networks.

    Raises:
        SettingError: the optimiser or loss is unknown or does not suit the targets, lr, steps or
            batch_size is not positive, subsets does not hold one non-empty row of positions in
            train a network, or sample_weight does not suit it.
        ModelError: nothing trains, the model does not suit the samples, its outputs fit neither the
            classes nor the targets, or torch.func cannot vectorise a layer.

    Cost: 6 parameters · batch · S operations an update; 4 S parameters held (weights, gradient and
    two moments) and the activations of one batch. Plain dense stacks take closed-form gradients,
    other networks vmap and autograd: same updates to rounding, several times slower when small.
    """
    recipe = with_loss(recipe, train)
    _check_training(models, train, subsets, recipe)
    dtype = getattr(torch, recipe.precision)

    def draw(x: Tensor, y: Tensor) -> Iterator[Batch]:
        drawn = batches(x, y, subsets, recipe.steps, recipe.batch_size, seed, dtype)
        if sample_weight is None:
            return drawn
        return multiply_weights(drawn, subsets, sample_weight)

    return train_on_batches(models, train, [train.y], recipe, draw, observe, progress)


def train_on_batches(
    models: Sequence[nn.Module],
    train: SampleSet,
    labels: Sequence[np.ndarray],
    recipe: Recipe,
    draw_from: Callable[[Tensor, Tensor], Iterator[Batch]],
    observe: Callable[[Tensor, Tensor], None] | None = None,
    progress: Progress = silent,
    prepared: Tensor | None = None,
) -> TrainedNetworks:
    """Train S networks on the batches that `draw_from` makes of all inputs and targets."""
    # labels: versions of the targets, each [n] or [n, k], joined along samples for `draw_from`.
    # observe: as of `train_networks`.
    # prepared: the inputs of plain dense stacks, after the fixed layers of the network that learns
    # from each sample; None: the networks share those layers.
    dtype = getattr(torch, recipe.precision)
    frozen = {id(m): frozen_copy(m, dtype) for m in models}  # one network may start many
    copies = [frozen[id(m)] for m in models]
    template = copies[0]
    start, fixed = stack_weights(copies)
    x = network_inputs(train.x, template, dtype)
    with torch.no_grad():
        n_outputs = one_output(template, x[:1]).shape[1]
    check_n_outputs(train, n_outputs)
    versions = [replace(train, y=targets, true_y=None) for targets in labels]
    y = torch.cat([train_targets(version, recipe, n_outputs, dtype) for version in versions])
    y = y.to(x.device)
    stack = dense_stack(copies, x[:1], is_shared=prepared is None)
    if stack is None:
        write_gradients = partial(_write_autograd_gradients, template, fixed, recipe)
        trained = _descend(start, draw_from(x, y), write_gradients, recipe, observe, progress)
    else:
        x = stack.before(x) if prepared is None else prepared
        drawn = draw_from(x, _encode_targets(y, n_outputs, dtype))
        trained = _train_dense(start, drawn, stack, recipe, observe, progress)
    return TrainedNetworks(template, trained | fixed)


def sample_losses(
    outputs: Float[Tensor, "S n k"], samples: SampleSet, recipe: Recipe
) -> Float[Tensor, "S n"]:
    """Return the loss of every sample under every network.

    Args:
        outputs: of S networks.
        samples: n samples.
        recipe: names the loss.

    Returns:
        Nats (cross-entropy, bce) or half squared target units (mse).
    """
    recipe = with_loss(recipe, samples)
    y = train_targets(samples, recipe, outputs.shape[2], outputs.dtype)
    return loss_named(recipe.loss).value(outputs, y.expand(len(outputs), *y.shape))


def with_loss(recipe: Recipe, train: SampleSet) -> Recipe:
    """Return the recipe with "auto" replaced by the task's loss; raise if it does not suit."""
    if recipe.loss != "bce":
        return replace(recipe, loss=task_loss(train, recipe.loss))
    if not train.has_several_labels:
        raise SettingError(
            "loss 'bce' is of several labels per sample, y [n, k] of 0 and 1; got "
            f"{'classes' if train.is_classification else 'other numbers'}. Take 'auto'."
        )
    return recipe


def stack_weights(models: Sequence[nn.Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return stacked trainable weights, and stacked frozen weights and buffers, by name."""
    weights, buffers = stack_module_state(list(models))
    trained_names = [name for name, p in models[0].named_parameters() if p.requires_grad]
    if not trained_names:
        raise ModelError(
            "the model must have a trainable parameter; every one is frozen, or there is none. Set "
            "requires_grad on those to train."
        )
    start = {name: weights.pop(name).detach() for name in trained_names}
    return start, {name: w.detach() for name, w in weights.items()} | buffers


def _descend(
    start: dict[str, Tensor],
    draw: Iterator[Batch],
    write_gradients: Callable[[dict[str, Tensor], Batch], Tensor],
    recipe: Recipe,
    observe: Callable[[Tensor, Tensor], None] | None,
    progress: Progress,
) -> dict[str, Tensor]:
    """Return the weights after one optimiser step per batch."""
    # write_gradients: sets each weight's .grad for a batch and returns the outputs.
    weights = {name: w.clone().requires_grad_() for name, w in start.items()}
    update = _make_optimizer_step(recipe, list(weights.values()))
    for step, batch in enumerate(draw):
        outputs = write_gradients(weights, batch)
        if observe is not None:
            observe(batch.positions.cpu(), outputs.cpu())
        if recipe.weight_decay:
            for name, w in weights.items():
                assert w.grad is not None
                w.grad.add_(w.detach() - start[name], alpha=recipe.weight_decay)
        update()
        progress("retrain networks", step + 1, recipe.steps)
    return {name: w.detach() for name, w in weights.items()}


def _train_dense(
    start: dict[str, Tensor],
    draw: Iterator[Batch],
    stack: DenseStack,
    recipe: Recipe,
    observe: Callable[[Tensor, Tensor], None] | None,
    progress: Progress,
) -> dict[str, Tensor]:
    """Return dense networks' weights after one step per batch, with hand-written gradients."""
    predict = loss_named(recipe.loss).predict
    first_batch = next(draw)
    draw = chain([first_batch], draw)
    n, n_inputs = first_batch.x.shape[-2:]
    # Not for Adam: its step depends on the axes that it is taken along, descent's does not.
    is_descent = recipe.optimizer == "sgd" and recipe.batch_size is None
    if not (is_descent and first_batch.is_shared and n < 2 * n_inputs):
        return _descend(start, draw, DenseGradients(stack, predict), recipe, observe, progress)
    space = FunctionSpace(stack.layers[0], start, first_batch.x)
    gradients = DenseGradients(stack, predict, space.offset())
    kernel = space.kernel(first_batch)
    draw = (replace(kernel, weights=batch.weights) for batch in draw)
    coordinates = space.coordinates()
    return space.weights(_descend(coordinates, draw, gradients, recipe, observe, progress))


def _write_autograd_gradients(
    template: nn.Module,
    fixed: dict[str, Tensor],
    recipe: Recipe,
    weights: dict[str, Tensor],
    batch: Batch,
) -> Float[Tensor, "S samples k"]:
    """Write the gradients of a batch's loss by autograd; return its outputs."""
    for w in weights.values():
        w.grad = None
    with run_vectorized(TASK):
        outputs = _compute_outputs(template, {**weights, **fixed}, batch)
        # Each network's loss touches its own weights only, so one backward pass serves all.
        target_shape = batch.y.shape[1:] if batch.is_shared else batch.y.shape[2:]
        y = batch.y.expand(*outputs.shape[:2], *target_shape)
        losses = loss_named(recipe.loss).value(outputs, y)
        (losses * batch.weights).sum().backward()
    return outputs.detach()


def _check_training(models, samples: SampleSet, subsets: Tensor, recipe: Recipe) -> None:
    """Raise SettingError unless `train_networks` can train with these arguments."""
    one_of("optimizer", recipe.optimizer, ("adam", "sgd"))
    one_of("precision", recipe.precision, ("float32", "float64"))
    at_least("weight_decay", recipe.weight_decay, 0)
    for name in ("lr", "steps", "batch_size"):
        value = getattr(recipe, name)
        if value is not None:
            positive(name, value)
    if len(models) != len(subsets) or not subsets.numel():
        raise SettingError(
            f"subsets must hold one non-empty row a network; got {list(subsets.shape)} for "
            f"{len(models)} networks."
        )
    if not 0 <= int(subsets.min()) <= int(subsets.max()) < len(samples):
        raise SettingError(
            f"subsets must hold positions in 0..{len(samples) - 1}; got {int(subsets.min())} to "
            f"{int(subsets.max())}."
        )


def _make_optimizer_step(recipe: Recipe, weights: list[Tensor]) -> Callable[[], None]:
    """Return a function that updates the weights in place by their gradients."""

    # Bit-identical to torch's classes, which take two seconds to import a compiler.
    @torch.no_grad()
    def descend() -> None:
        gradients = [w.grad for w in weights if w.grad is not None]
        sgd(weights, gradients, [None] * len(weights), lr=recipe.lr, **SGD)

    if recipe.optimizer == "sgd":
        return descend
    first_moments = [torch.zeros_like(w) for w in weights]
    second_moments = [torch.zeros_like(w) for w in weights]
    steps = [torch.zeros((), device=w.device) for w in weights]

    @torch.no_grad()
    def update() -> None:
        gradients = [w.grad for w in weights if w.grad is not None]
        adam(weights, gradients, first_moments, second_moments, [], steps, lr=recipe.lr, **ADAM)

    return update


def train_targets(samples: SampleSet, recipe: Recipe, n_outputs: int, dtype: torch.dtype) -> Tensor:
    """Return targets as the loss takes them: class indices [n], or numbers or 0/1 [n, k]."""
    y = torch.as_tensor(samples.y)
    if not samples.is_classification:
        return y.to(dtype).reshape(len(y), -1)
    if loss_named(recipe.loss).has_one_class:
        return y.long()
    return _encode_targets(y.long(), n_outputs, dtype)


def _encode_targets(y: Tensor, n_outputs: int, dtype: torch.dtype) -> Float[Tensor, "n k"]:
    """Return targets as [n, k]: numbers unchanged, classes one-hot, or 0/1 if k = 1."""
    if y.ndim > 1:
        return y
    if n_outputs == 1:
        return y[:, None].to(dtype)
    return torch.nn.functional.one_hot(y, n_outputs).to(dtype)


def _compute_outputs(
    template: nn.Module, state: dict[str, Tensor], batch: Batch
) -> Float[Tensor, "S samples k"]:
    """Return a batch's outputs by S networks, whose stacked tensors are `state`."""
    if len(batch.weights) == 1:  # vmap would turn one convolution into a grouped one
        x = batch.x if batch.is_shared else batch.x[0]
        return functional_call(template, {name: t[0] for name, t in state.items()}, (x,))[None]
    input_axis = None if batch.is_shared else 0
    call = vmap(lambda state, x: functional_call(template, state, (x,)), in_dims=(0, input_axis))
    return call(state, batch.x)
