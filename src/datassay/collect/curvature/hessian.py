"""The training loss around a network's present weights: gradients, Hessian products, Jacobians.

Weights are flat here, [d], in the order of `named_parameters` that require a gradient.
"""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor, nn
from torch.func import functional_call, grad, jvp, vmap

from datassay.collect.choose_form import LARGEST_EIGENPROBLEM
from datassay.collect.collection import network_targets
from datassay.collect.curvature.output_loss import task_loss
from datassay.collect.jacobian.inputs import network_inputs
from datassay.collect.jacobian.per_sample import inspect_layers, typed_copy
from datassay.collect.jacobian.suitable import run_vectorized
from datassay.collect.loss import loss_named
from datassay.data.samples import SampleSet
from datassay.errors import ModelError, SettingError
from datassay.results import result
from datassay.rules import one_of

# Values that one batch of flat weight vectors may hold, 128 MiB in float64.
VECTOR_VALUES = 2**24
# Values that the activations of one vectorised pass may hold.
ACTIVATION_VALUES = 2**25


@result
class LossAt:
    """The mean loss of n samples as a function of a network's weights, around its present ones.

    Attributes:
        template: the network, in evaluation mode.
        weights: parameter name → its present value, those that train.
        fixed: the other parameters and the buffers.
        x: inputs, [n, ...].
        y: targets, [n, k]; classes are one-hot, two classes with one output are {0, 1}.
        loss: "mse" (½ squared error, summed over outputs) or "cross_entropy".
        activations: values that one sample's forward pass holds.
    """

    template: nn.Module
    weights: dict[str, Tensor]
    fixed: dict[str, Tensor]
    x: Num[Tensor, "n ..."]
    y: Float[Tensor, "n k"]
    loss: str
    activations: int

    def __len__(self) -> int:
        return len(self.x)

    @property
    def n_parameters(self) -> int:
        """How many weights train, d."""
        return sum(w.numel() for w in self.weights.values())

    @property
    def vectors_at_once(self) -> int:
        """Flat vectors a batch that stay within the memory set aside for them."""
        return max(1, VECTOR_VALUES // self.n_parameters)


def loss_at(model: nn.Module, samples: SampleSet, loss: str, precision: str = "float64") -> LossAt:
    """Return a network's mean training loss as an object that can be differentiated.

    Args:
        model: [n, *input_shape] → [n, k]; copied, run in evaluation mode.
        samples: n training samples.
        loss: "mse", "cross_entropy" (one output: binary), or "auto": by the task.
        precision: "float32" or "float64", of weights and inputs.

    Returns:
        The loss, which the functions of this file take.

    Raises:
        ModelError: nothing trains, or the outputs do not suit the targets.
        SettingError: the loss or the precision is unknown or does not suit the targets.
    """
    loss = task_loss(samples, loss)
    one_of("precision", precision, ("float32", "float64"))
    load_forward_mode()
    dtype = getattr(torch, precision)
    template = typed_copy(model, dtype)
    x = inputs(template, samples)
    k = inspect_layers(template, x[:1]).n_outputs
    trained = {n: p.detach() for n, p in template.named_parameters() if p.requires_grad}
    frozen = {n: p.detach() for n, p in template.named_parameters() if n not in trained}
    return LossAt(
        template=template,
        weights=trained,
        fixed=frozen | dict(template.named_buffers()),
        x=x,
        y=network_targets(samples, k).to(x.device, dtype),
        loss=loss,
        activations=_count_activations(template, x[:1]),
    )


def inputs(template: nn.Module, samples: SampleSet) -> Num[Tensor, "n ..."]:
    """Copy the samples' inputs as the network takes them, on its device.

    Args:
        template: the network.
        samples: n samples.

    Returns:
        A copy: networks that work in place must not change the samples.
    """
    return network_inputs(samples.x, template, next(template.parameters()).dtype)


def outputs_at(objective: LossAt, x: Num[Tensor, "m ..."]) -> Float[Tensor, "m k"]:
    """Return the network's outputs on inputs x, [m, k]; raise if one is not finite."""
    rows = max(1, ACTIVATION_VALUES // objective.activations)
    with torch.no_grad():
        outputs = torch.cat([_call(objective, objective.weights, chunk) for chunk in x.split(rows)])
    if not torch.isfinite(outputs).all():
        raise ModelError(
            "the model's outputs must be finite; got NaN or infinity. Check the weights and the "
            "scale of the inputs."
        )
    return outputs


def loss_gradients(objective: LossAt, start: int, stop: int) -> Float[Tensor, "chunk d"]:
    """Return the loss gradients of samples start ... stop, [chunk, d]."""
    gradient_of = vmap(grad(partial(_mean_loss, objective)), in_dims=(None, 0, 0))
    with _vectorization():
        gradients = gradient_of(
            objective.weights, objective.x[start:stop, None], objective.y[start:stop, None]
        )
    return _flatten(gradients)


def mean_gradient(objective: LossAt) -> Float[Tensor, "1 d"]:
    """Return the gradient of the mean loss over all samples, [1, d]."""
    total = sum(
        loss_gradients(objective, start, start + objective.vectors_at_once).sum(0, keepdim=True)
        for start in range(0, len(objective), objective.vectors_at_once)
    )
    return torch.as_tensor(total) / len(objective)


def with_weights(objective: LossAt, weights: Float[Tensor, " d"]) -> LossAt:
    """Return the same loss around other weights, given flat."""
    by_name = _split_by_name(objective, weights[None])
    return replace(objective, weights={name: values[0] for name, values in by_name.items()})


def hessian_products(
    objective: LossAt, vectors: Float[Tensor, "s d"], subset: Int[Tensor, " b"] | None = None
) -> Float[Tensor, "s d"]:
    """Return the mean loss's Hessian times each of s vectors, by forward-over-reverse mode.

    Args:
        objective: the loss.
        vectors: s weight vectors.
        subset: positions of the samples to average over; None is all of them.

    Returns:
        H v, for each v.

    Raises:
        ModelError: torch.func cannot vectorise the model.

    Cost: two passes over the samples for the weights, which the vectors share, and two for each
    vector.
    """
    x = objective.x
    y = objective.y
    if subset is not None:
        x = x[subset]
        y = y[subset]
    tangents = _split_by_name(objective, vectors)
    rows = max(1, ACTIVATION_VALUES // (len(vectors) * objective.activations))
    total: Tensor | None = None  # as long as the vectors: no copy more than needed
    for part_x, part_y in zip(x.split(rows), y.split(rows), strict=True):
        slope = grad(partial(_mean_loss, objective, x=part_x, y=part_y))
        product = _flatten(_derivatives_along(objective, slope, tangents))
        if len(part_x) < len(x):
            product.mul_(len(part_x) / len(x))
        if total is None:
            total = product
        else:
            total = total.add_(product)
    assert total is not None
    return total


def hessian(
    objective: LossAt, report: Callable[[int], None] = lambda _: None
) -> Float[Tensor, "d d"]:
    """Return the whole Hessian of the mean loss.

    Args:
        objective: the loss.
        report: called with the rows done.

    Returns:
        H, in float64.

    Raises:
        SettingError: the network has too many weights for it.
        ModelError: torch.func cannot vectorise the model.

    Cost: 2 d passes over the samples; d² values.
    """
    d = objective.n_parameters
    if d > LARGEST_EIGENPROBLEM:
        raise SettingError(
            f"a whole Hessian needs at most {LARGEST_EIGENPROBLEM} weights; the model has {d}. "
            "Use method='cg', or freeze all but the last layers (requires_grad_(False))."
        )
    n_vectors = max(1, ACTIVATION_VALUES // (len(objective) * objective.activations))
    size = min(objective.vectors_at_once, n_vectors)
    weight = next(iter(objective.weights.values()))
    matrix = torch.empty(d, d, dtype=torch.float64, device=weight.device)
    for start in range(0, d, size):
        units = torch.zeros(min(size, d - start), d, dtype=weight.dtype, device=weight.device)
        units.diagonal(start).fill_(1)
        matrix[start : start + size] = hessian_products(objective, units).double()
        report(min(start + size, d))
    return (matrix + matrix.T) / 2


def output_changes(
    objective: LossAt, x: Num[Tensor, "m ..."], moves: Float[Tensor, "s d"]
) -> Float[Tensor, "s m k"]:
    """Return first-order changes J(x_j) Δ of the outputs for each weight change Δ in moves."""
    tangents = _split_by_name(objective, moves)
    rows = max(1, ACTIVATION_VALUES // (len(moves) * objective.activations))
    calls = (partial(_call, objective, x=chunk) for chunk in x.split(rows))
    return torch.cat([_derivatives_along(objective, call, tangents) for call in calls], 1)


def _derivatives_along(objective: LossAt, function: Callable, tangents: dict[str, Tensor]) -> Any:
    """Return the derivative of a function of the weights along each of s moves, [s, ...]."""
    with _vectorization():
        return vmap(lambda v: jvp(function, (objective.weights,), (v,))[1])(tangents)


def _call(objective: LossAt, weights: dict[str, Tensor], x: Tensor) -> Float[Tensor, "m k"]:
    return functional_call(objective.template, {**objective.fixed, **weights}, (x,))


def _mean_loss(
    objective: LossAt, weights: dict[str, Tensor], x: Tensor, y: Tensor
) -> Float[Tensor, ""]:
    return loss_named(objective.loss).value(_call(objective, weights, x), y).mean()


def _flatten(by_name: dict[str, Tensor]) -> Float[Tensor, "s d"]:
    """Join tensors [s, *shape] by parameter to flat weight vectors."""
    return torch.cat([values.flatten(1) for values in by_name.values()], 1)


def _split_by_name(objective: LossAt, vectors: Float[Tensor, "s d"]) -> dict[str, Tensor]:
    """Split flat weight vectors into tensors [s, *shape] by parameter: `_flatten`'s inverse."""
    parts = vectors.split([w.numel() for w in objective.weights.values()], 1)
    pieces = zip(objective.weights.items(), parts, strict=True)
    return {name: values.reshape(-1, *w.shape) for (name, w), values in pieces}


def _count_activations(template: nn.Module, x: Float[Tensor, "1 ..."]) -> int:
    """Return the number of values that a forward pass of one sample holds."""
    tensors: list[object] = [x]
    with torch.no_grad(), ExitStack() as hooks:
        for m in template.modules():
            if not list(m.children()):
                hook = m.register_forward_hook(lambda _module, _inputs, out: tensors.append(out))
                hooks.enter_context(hook)
        template(x.clone())
    return sum(t.numel() for t in tensors if isinstance(t, Tensor))


@cache
def load_forward_mode() -> None:
    """Load torch's forward-mode differentiation, without its own deprecation warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        jvp(torch.sin, (torch.zeros(1),), (torch.ones(1),))


def _vectorization() -> AbstractContextManager[None]:
    return run_vectorized("differentiate forward and backward for many vectors at once")
