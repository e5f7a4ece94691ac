"""Per-sample Jacobians of any module by torch.func, dense layers as factors, in one pass.

A dense layer z = A Wᵀ + b, with per-sample input A and output gradient Δ = ∂f/∂z, has the Jacobian
Δ ⊗ A. Adding a zero `tap` to z and differentiating by it gives Δ, so the same call of torch.func
returns the factors of every dense layer and the full Jacobian of every other parameter, and the
gradient of a dense weight is never formed. A convolution is a dense layer on the patch at each
position l: its Jacobian is Σ_l Δ_l ⊗ A_l, one matrix product a sample or only the entries wanted.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import cast

import torch
from jaxtyping import Float, Num
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev, vmap

from datassay.collect.convolution import patches
from datassay.collect.jacobian.blocks import Block, ConvolutionFactors, DenseFactors
from datassay.collect.jacobian.suitable import (
    copy_network,
    keep_activations,
    keep_type,
    one_output,
    plain_attention,
    unwrap,
)
from datassay.collect.layers import Layers, parameter_name
from datassay.errors import ModelError
from datassay.models.user_code import user_code


def frozen_copy(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Copy a network in evaluation mode (running statistics in batch norm, no dropout).

    Args:
        model: the network; left untouched.
        dtype: of the copy's floating-point parameters and buffers.

    Returns:
        The copy, of what is inside where torch.compile or a data-parallel wrapper is around it.

    Raises:
        ModelError: as `unwrap` refuses it, or it cannot be copied.
    """
    model = unwrap(model)
    copied = copy_network(model).eval()
    keep_type(copied, dtype)
    return copied


def typed_copy(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Return a frozen copy whose layers convert their inputs to their weights' type.

    So it runs in `dtype` although the network's own code may set another.

    Args:
        model: as in `frozen_copy`.
        dtype: of the copy.

    Returns:
        The copy, with a hook at each of torch's layers.

    Raises:
        ModelError: as `frozen_copy` does.
    """
    copied = frozen_copy(model, dtype)
    for module in copied.modules():
        has_weights = next(module.parameters(recurse=False), None) is not None
        if has_weights and type(module).__module__.startswith("torch.nn."):
            module.register_forward_pre_hook(_match_type)
    return copied


def _match_type(module: nn.Module, args: tuple) -> tuple:
    """Return, as a hook, a layer's inputs converted to its weights' type."""
    weight = next(module.parameters(recurse=False))
    if torch.is_autocast_enabled(weight.device.type):
        return args

    def convert(value: object) -> object:
        if isinstance(value, Tensor) and value.is_floating_point():
            return value.to(weight.dtype)
        return value

    return tuple(map(convert, args))


def inspect_layers(model: nn.Module, x: Num[Tensor, "1 ..."]) -> Layers:
    """Return the layers with factored Jacobians: called once per sample, on one vector.

    Args:
        model: the network, in evaluation mode.
        x: one sample, from `network_inputs`.

    Returns:
        The layers, in the model's own order.

    Raises:
        ModelError: nothing trains, the model fails on the sample, its output is not [n, k], or no
            gradient reaches its parameters.
    """
    if not any(p.requires_grad for p in model.parameters()):
        raise ModelError(
            "the model must have a trainable parameter; every one is frozen, or there is none. Set "
            "requires_grad on those to linearise in."
        )
    calls: dict[str, tuple[torch.Size, Tensor, object]] = {}
    factored = {n: m for n, m in model.named_modules() if type(m) in {nn.Linear, nn.Conv2d}}
    with ExitStack() as hooks:
        for n, m in factored.items():  # before any hook of the user's that changes the output
            hook = partial(_record_call, calls, n)
            hooks.enter_context(m.register_forward_hook(hook, prepend=True))
        output = one_output(model, x)
    if not output.requires_grad:
        raise ModelError(
            "the model's output must depend on its trainable parameters; no gradient reaches it. "
            "Take torch.no_grad and detach out of its forward."
        )
    in_order = {n: calls[n] for n in factored if n in calls}
    return replace(
        _split_parameters(model, in_order, output), takes_integers=not x.is_floating_point()
    )


def _record_call(calls: dict, name: str, module: nn.Module, args: tuple, output: Tensor) -> None:
    """Record a layer's input shape, its output and its graph node, if the input is positional."""
    if args:  # an operation in place on the output would change what it came of
        calls[name] = (args[0].shape, output, output.grad_fn)


def _split_parameters(model, calls, output) -> Layers:
    """Return the model's layers: those with factored Jacobians, and all other tensors."""
    # calls: module name → (input shape, output, its graph node).
    uses = _count_uses(output)
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    dense = {}
    convolutions = {}
    last_layer = ""
    for name, (shape, result, node) in calls.items():
        m = model.get_submodule(name)
        params = {parameter_name(name, n): p for n, p in m.named_parameters()}
        # Used a second time (the layer itself, tied weights, a functional call), or on several
        # vectors per sample, the Jacobian is a sum of products and no longer factors.
        if not params.keys() <= trained.keys() or any(uses[id(p)] != 1 for p in params.values()):
            continue
        # A hook may compute the weight of others, as torch's weight_norm and prune do.
        if {n for n, _ in m.named_parameters()} - {"bias"} != {"weight"}:
            continue
        if isinstance(m, nn.Linear) and shape == (1, m.in_features):
            dense[name] = (m.in_features, m.out_features, m.bias is not None)
            if result is output and node is output.grad_fn:  # and was not changed in place
                last_layer = name
        if isinstance(m, nn.Conv2d) and (len(shape), shape[0]) == (4, 1):
            # torch.nn.functional.unfold gives what the kernel sees: all channels, zeros around.
            if m.groups == 1 and m.padding_mode == "zeros" and not isinstance(m.padding, str):
                convolutions[name] = tuple(result.shape[1:])
    covered = {parameter_name(n, p) for n in dense for p in ("weight", "bias")}
    direct = {n: p.numel() for n, p in trained.items() if n not in covered}
    return Layers(dense, direct, output.shape[1], convolutions, last_layer)


def _count_uses(output: Tensor) -> Counter[int]:
    """Return how often each parameter, by id, enters the autograd graph of `output`."""
    uses: Counter[int] = Counter()
    waiting = [output.grad_fn]
    visited = {output.grad_fn}
    while waiting:
        node = waiting.pop()
        for child, _ in node.next_functions if node else ():
            parameter = getattr(child, "variable", None)  # where the graph ends
            if parameter is not None:
                uses[id(parameter)] += 1
            elif child not in visited:
                visited.add(child)
                waiting.append(child)
    return uses


def mixing(k: int, n_mixtures: int) -> Float[Tensor, "k n_mixtures"]:
    """Return M, fixed random signs / √n_mixtures: ‖f M‖² is ‖f‖² in the mean ± √(2/n_mixtures)."""
    signs = torch.randint(0, 2, (k, n_mixtures), generator=torch.Generator().manual_seed(k))
    return (2.0 * signs.double() - 1) / n_mixtures**0.5


def jacobian(
    model: nn.Module, layers: Layers, x: Num[Tensor, "n ..."], mixtures: int = 0
) -> tuple[Float[Tensor, "n k"], dict[str, Block]]:
    """Return outputs f₀ [n, k], and Jacobian blocks: dense layers' factors, others in full."""
    # mixtures: how many random mixtures of the outputs, of equal mean square, stand for these in
    # the Jacobians; 0: none.
    outputs, blocks = factored_jacobian(model, layers, x, mixtures)
    return outputs, {
        name: block.product if isinstance(block, ConvolutionFactors) else block
        for name, block in blocks.items()
    }


def factored_jacobian(
    model: nn.Module, layers: Layers, x: Num[Tensor, "n ..."], mixtures: int = 0
) -> tuple[Float[Tensor, "n k"], dict[str, Block | ConvolutionFactors]]:
    """Return `jacobian` with convolutions' Jacobians as factors, which `project` can use."""
    # Cost: a forward pass per sample, and k backward passes to the layers' outputs alone.
    parameters = {n: p.detach() for n, p in model.named_parameters()}
    conv_names = {parameter_name(n, p) for n in layers.convolutions for p in ("weight", "bias")}
    direct = {n: parameters[n] for n in layers.direct if n not in conv_names}
    fixed = {n: p for n, p in parameters.items() if n not in direct} | dict(model.named_buffers())
    shapes = {n: (n_out,) for n, (_, n_out, _) in layers.dense.items()} | layers.convolutions
    # With the batch axis of the one sample: nothing is left to add up over it.
    weight = next(iter(parameters.values()))
    taps = {n: weight.new_zeros(1, *shape) for n, shape in shapes.items()}
    # [k or mixtures, k]: each row is a combination of the outputs to differentiate.
    combinations = torch.eye(layers.n_outputs, dtype=weight.dtype, device=weight.device)
    if mixtures:
        signs = mixing(layers.n_outputs, mixtures).T
        combinations = signs * (mixtures / layers.n_outputs) ** 0.5
    tapped = _Tapped(model, fixed, layers.last_layer, combinations.to(weight))
    if layers.unvectorized:
        differentiate = tapped.differentiate_alone
    else:
        differentiate = tapped.differentiate
    (by_direct, by_tap), (outputs, inputs) = differentiate(direct, taps, x)
    # Without the axis of the one sample.
    inputs = {n: a.flatten(0, 1) for n, a in inputs.items()}  # [n, ...]
    gradients = {n: d.squeeze(2) for n, d in by_tap.items()}  # [n, k, ...]
    by_name: dict[str, Block | ConvolutionFactors] = {n: j.flatten(2) for n, j in by_direct.items()}
    for name in layers.convolutions:
        layer = cast("nn.Conv2d", model.get_submodule(name))
        by_position = gradients[name].flatten(3)  # [n, k, n_out, positions]
        factors = ConvolutionFactors(patches(layer, inputs[name]), by_position)
        by_name[parameter_name(name, "weight")] = factors
        if layer.bias is not None:
            by_name[parameter_name(name, "bias")] = by_position.sum(3)
    blocks = {name: by_name[name] for name in layers.direct}
    for name, (_, _, has_bias) in layers.dense.items():
        blocks[name] = DenseFactors(inputs[name], gradients[name], has_bias)
    return outputs, blocks


Tensors = dict[str, Tensor]  # by name
# (by parameters, by taps), (outputs, inputs of tapped layers).
Derivatives = tuple[tuple[Tensors, Tensors], tuple[Tensor, Tensors]]


class _Tapped:
    """A network with taps; combinations of its outputs are differentiated by weights and taps."""

    def __init__(self, model: nn.Module, fixed: Tensors, last_layer: str, combinations: Tensor):
        self._model = model
        self._fixed = fixed
        self._last_layer = last_layer
        self._combinations = combinations
        self._running: list[str] = []  # names of the layers that run, the innermost last

    def _run(
        self, direct: Tensors, taps: Tensors, sample: Tensor
    ) -> tuple[Tensor, tuple[Tensor, Tensors]]:
        """Return a sample's combinations of outputs, its outputs, and the tapped layers' inputs."""
        # Where the last layer is known its input stands for the combinations.
        with _add_taps(self._model, taps, self._running) as inputs, keep_activations():
            # A copy: the network may change its input in place.
            tensors = {**self._fixed, **direct}
            output = functional_call(self._model, tensors, (sample[None].clone(),))[0]
        if self._last_layer:
            differentiated = inputs[self._last_layer][0]
        else:
            differentiated = self._combinations.to(output) @ output
        return differentiated, (output, inputs)

    def differentiate(self, direct: Tensors, taps: Tensors, x: Tensor) -> Derivatives:
        """Return derivatives, [n, k, ...], outputs and inputs of all samples together."""
        with user_code(partial(_explain_failure, self._running)), plain_attention():
            return vmap(self._differentiate_one, (None, None, 0))(direct, taps, x)

    def _differentiate_one(self, direct: Tensors, taps: Tensors, sample: Tensor) -> Derivatives:
        """Return one sample's derivatives by direct tensors and taps, outputs and inputs."""
        if not self._last_layer:
            return jacrev(self._run, argnums=(0, 1), has_aux=True)(direct, taps, sample)

        # Backwards from the last layer's input: the gradient of a combination by it is a row of
        # combinations · weight. As scalars: to start from a vector, autograd imports sympy for a
        # second.
        def gradient_along(row):
            def scalar(direct, taps):
                hidden, aux = self._run(direct, taps, sample)
                return (hidden * row).sum(), aux

            return grad(scalar, argnums=(0, 1), has_aux=True)(direct, taps)

        weight = self._fixed[parameter_name(self._last_layer, "weight")]
        (by_direct, by_tap), (outputs, inputs) = vmap(gradient_along)(self._combinations @ weight)
        aux = outputs[0], {name: values[0] for name, values in inputs.items()}  # all the same
        by_tap[self._last_layer] = self._combinations[:, None]
        return (by_direct, by_tap), aux

    def differentiate_alone(self, direct: Tensors, taps: Tensors, x: Tensor) -> Derivatives:
        """Return the same as `differentiate`, sample by sample and output by output."""
        # So any layer can be differentiated, but without taps.
        assert not taps, "another sample may use a layer twice, or not at all"
        jacobians = []  # by sample, then by tensor: [k, *shape]
        outputs = []
        for sample in x:
            leaves = {name: t.clone().requires_grad_() for name, t in direct.items()}
            gradients_of = partial(
                torch.autograd.grad, inputs=list(leaves.values()),
                retain_graph=True, allow_unused=True, materialize_grads=True,
            )  # fmt: skip
            with torch.enable_grad():
                combined, (output, _) = self._run(leaves, {}, sample)
                by_output = [gradients_of(value) for value in combined]
            by_tensor = zip(*by_output, strict=True)
            jacobians.append([torch.stack([g.to_dense() for g in rows]) for rows in by_tensor])
            outputs.append(output.detach())
        by_parameter = map(torch.stack, zip(*jacobians, strict=True))
        return (dict(zip(direct, by_parameter, strict=True)), {}), (torch.stack(outputs), {})


def vectorizable_layers(model: nn.Module, layers: Layers, x: Num[Tensor, "few ..."]) -> Layers:
    """Return the layers; all weights direct where torch.func cannot batch the network."""
    if layers.unvectorized:
        return layers
    probe = x[:3]
    n_mixtures = len(probe) + 1  # not the number of samples: torch may mix up equal sizes
    try:
        factored_jacobian(model, layers, probe, n_mixtures)
    except ModelError as error:
        trained_sizes = {n: p.numel() for n, p in model.named_parameters() if p.requires_grad}
        direct_layers = replace(layers, dense={}, direct=trained_sizes, convolutions={})
        return replace(direct_layers, last_layer="", unvectorized=str(error))
    return layers


def _explain_failure(running: list[str], error: str) -> str:
    """Return the message that torch.func fails at the innermost running layer."""
    layer = "one layer's backward pass"
    if running:
        layer = running[-1]
    return (
        f"every layer must be one that torch.func can vectorise; {layer} is not: {error} Replace "
        "it by operations on whole tensors, out of place."
    )


@contextmanager
def _add_taps(
    model: nn.Module, taps: dict[str, Tensor], running: list[str]
) -> Iterator[dict[str, Tensor]]:
    """Add, by hooks, zeros (taps) to layers' outputs, to differentiate by; yield layers' inputs."""
    # `running` gets the names of the layers that run.
    inputs: dict[str, Tensor] = {}

    def enter(label, module, args):
        running.append(label)

    def leave(label, module, args, output):
        running.remove(label)

    def tap(name, module, args, output):
        # A copy: the network may go on to change this tensor in place.
        inputs[name] = args[0].clone()
        return output + taps[name]

    with ExitStack() as hooks:
        for name, module in model.named_modules():
            if name:
                label = f"layer {name!r} ({type(module).__name__})"
            else:
                label = type(module).__name__
            entry = module.register_forward_pre_hook(partial(enter, label), prepend=True)
            hooks.enter_context(entry)
            hooks.enter_context(module.register_forward_hook(partial(leave, label)))
            if name in taps:  # before any hook of the user's that changes the output
                handle = module.register_forward_hook(partial(tap, name), prepend=True)
                hooks.enter_context(handle)
        yield inputs
