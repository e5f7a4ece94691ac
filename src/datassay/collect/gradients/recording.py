"""What layers get and give back in a pass: the factors of gradients by their weights."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from datassay.collect.gradients.blocks import Block
from datassay.collect.layers import Given, Use, kind_of, unfold
from datassay.errors import ModelError

# The uses of each block's weights, by its name: their sum over uses is the gradient.
Gradients = dict[str, list[Use]]
# Operations that leave samples at their places, whatever the values: by autograd's names.
PRODUCTS = {"Mm", "Addmm", "Bmm", "Baddbmm"}  # unless one side is data
IN_PLACE = PRODUCTS | set(
    "AccumulateGrad Add Sub Mul Div Neg Pow Exp Log Sqrt Rsqrt Relu LeakyRelu Elu Gelu Silu "
    "Sigmoid Tanh Softplus Hardswish Softmax LogSoftmax NllLoss View UnsafeView ReshapeAlias "
    "Unsqueeze Squeeze Expand Clone Alias ToCopy T Transpose Permute Sum Mean ConstantPadNd Slice "
    "Convolution NativeBatchNorm NativeGroupNorm NativeLayerNorm MaxPool2DWithIndices AvgPool2D "
    "AdaptiveAvgPool2D Embedding MaskedFill ScaledDotProductFlashAttentionForCpu".split()
)


class UnfitError(ModelError):
    """A layer's input or output is not what its kind has, one part of it a sample."""

    def __init__(self, block: Block):
        self.block = block
        super().__init__(
            f"the layer {block.name!r} must get tensors of one form in all batches; these differ "
            "from the first samples'. Leave it out (parameters=), or give batches of one form."
        )


class Recording:
    """Hooks that keep each layer's inputs and its outputs' gradients."""

    def __init__(self, model: nn.Module, blocks: list[Block], n_samples: int):
        self._model = model
        self._n_samples = n_samples
        self._blocks = {layer: block for block in blocks for layer in block.layers}
        # Of each call of a layer, its block and the map from its output's gradient to a use.
        self._calls: list[tuple[Block, Given]] = []
        self._gradients: dict[int, Tensor] = {}  # by outputs, by the call's position
        self._leaves: list[Tensor] = []  # outputs before which nothing is differentiated
        self._uses: Counter[str] = Counter()  # of weights, after the leaves
        self._hooks: list[Any] = []
        self.expanded: Block | None = None  # the last whose single row stands for all samples

    def __enter__(self) -> "Recording":
        for name, block in self._blocks.items():
            layer = self._model.get_submodule(name)
            hook = partial(self._record_call, block)
            # Before any hook of the user's that changes the output.
            self._hooks.append(layer.register_forward_hook(hook, prepend=True, with_kwargs=True))
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def _record_call(
        self, block: Block, layer: nn.Module, args: tuple, kwargs: dict, output: Any
    ) -> Any:
        """Record a layer's input now, and its output's gradient once known; return the output."""
        if not torch.is_grad_enabled():  # no part of what is differentiated
            return output
        if args:
            x = args[0]
        else:
            x = next(iter(kwargs.values()))
        index = len(self._calls)
        kind = kind_of(layer)
        assert kind is not None
        if isinstance(layer, nn.Embedding) and len(x) == 1 < self._n_samples:  # positions, say
            x = x.expand(self._n_samples, *x.shape[1:])
            output = output.expand(self._n_samples, *output.shape[1:])
            self.expanded = block
        # A copy: the network may go on to change this tensor in place.
        is_first = not x.requires_grad
        x = x.detach().clone()
        # Inputs and gradients of the weights' own type: autocast makes them bfloat16.
        dtype = next(layer.parameters()).dtype
        if x.is_floating_point():
            x = x.to(dtype)
        to_use = _call_layer(block, kind, layer, x, self._n_samples, block.has_bias)
        self._calls.append((block, to_use))
        if is_first:  # nothing before it is differentiated: start here
            leaf = output.detach().requires_grad_()
            self._leaves.append(leaf)
            output = leaf.clone()
        else:
            self._uses.update(block.parameters)
        # On this tensor, so that what changes it in place later counts as after it.
        output.register_hook(partial(self._store_gradient, index, dtype))
        return output

    def form(self, values: Tensor) -> tuple | None:
        """Return the graph that values come from, if it cannot be wrong for other data; else None.

        Then the layers' calls are all uses of their weights, and samples keep their places.
        """
        names = {id(weight): name for name, weight in self._model.named_parameters()}
        uses_left = self._uses.copy()
        numbers = {values.grad_fn: 0}
        form = []
        nodes: list[Any] = [values.grad_fn]
        for node in nodes:  # which grows
            operation = node.name().split("::")[-1].rstrip("0123456789").removesuffix("Backward")
            inputs = [child for child, _ in node.next_functions]
            has_data = operation in PRODUCTS and None in inputs[-2:]
            selects = operation == "Slice" and node._saved_dim == 0
            if operation not in IN_PLACE or has_data or selects:
                return None
            for child in inputs:
                if child is not None and child not in numbers:
                    numbers[child] = len(numbers)
                    nodes.append(child)
            weights = [names.get(id(getattr(child, "variable", None))) for child in inputs]
            uses_left.subtract(filter(None, weights))
            form.append((operation, *weights, *map(numbers.get, inputs)))
        if any(uses_left.values()):
            return None
        return tuple(form)

    def _store_gradient(self, index: int, dtype: torch.dtype, gradient: Tensor) -> None:
        self._gradients[index] = gradient.to(dtype)

    def differentiate(self, values: Tensor, weight: Tensor, *, keep: bool) -> Gradients:
        """Return each block's uses from one backward pass of Σ weight · value."""
        # `keep`: whether another pass follows.
        self._gradients.clear()
        results: Gradients = {}
        if values.requires_grad and self._leaves:
            torch.autograd.grad(values, self._leaves, weight, retain_graph=keep, allow_unused=True)
        for index, (block, to_use) in enumerate(self._calls):
            if index in self._gradients:
                use = _call_layer(block, to_use, self._gradients[index])
                use = _call_layer(block, unfold, use, self._n_samples)
                results.setdefault(block.name, []).append(use)
        if not results and self._blocks:
            # No gradient reaches any layer. One block of zeros tells readers how many samples.
            block = next(iter(self._blocks.values()))
            weights = self._model.get_parameter(block.parameters[0])  # whose type the others have
            results[block.name] = [weights.new_zeros(self._n_samples, *block.shape)]
        return results


def _call_layer(block: Block, call: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of a layer's tensors; raise UnfitError where their shapes do not suit it."""
    try:
        return call(*arguments)
    except (RuntimeError, IndexError, ValueError) as error:
        raise UnfitError(block) from error
