"""What layers get and give back in a pass: the factors of gradients by their weights."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from datassay.collect.gradients.blocks import Block
from datassay.collect.layers import ToUse, Use, gradient_rule, unfold
from datassay.errors import ModelError

# The uses of each block's weights, by its name: their sum over uses is the gradient.
Gradients = dict[str, list[Use]]


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
        # Of each call of a layer, its block, the map from its output's gradient to a use, and the
        # type that this gradient is to have.
        self._calls: list[tuple[Block, ToUse, torch.dtype]] = []
        self._outputs: list[GradientEdge] = []  # of the same calls
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
        """Record, as a hook, a layer's input and later its output's gradient; return the output."""
        if not torch.is_grad_enabled():  # no part of what is differentiated
            return output
        if args:
            x = args[0]
        else:
            x = next(iter(kwargs.values()))
        kind = gradient_rule(layer)
        assert kind is not None
        if isinstance(layer, nn.Embedding) and len(x) == 1 < self._n_samples:  # positions, say
            x = x.expand(self._n_samples, *x.shape[1:])
            output = output.expand(self._n_samples, *output.shape[1:])
            self.expanded = block
        # A copy: the network may go on to change this tensor in place.
        x = x.detach().clone()
        # Inputs and gradients of the weights' own type: autocast makes them bfloat16.
        dtype = next(layer.parameters()).dtype
        if x.is_floating_point():
            x = x.to(dtype)
        to_use = _call_layer(block, kind, layer, x, self._n_samples, block.has_bias)
        self._calls.append((block, to_use, dtype))
        if not output.requires_grad:  # nothing before it is differentiated: start here
            output = output.detach().requires_grad_().clone()
        # The edge, so that what changes this tensor in place later counts as after it.
        self._outputs.append(get_gradient_edge(output))
        return output

    def differentiate(self, values: Tensor, weight: Tensor, *, keep: bool) -> Gradients:
        """Return each block's uses from one backward pass of Σ weight · value."""
        # `keep`: whether another pass follows.
        results: Gradients = {}
        slopes: Sequence[Tensor | None] = ()
        if values.requires_grad and self._outputs:
            slopes = torch.autograd.grad(
                values, self._outputs, weight, retain_graph=keep, allow_unused=True
            )
        for (block, to_use, dtype), slope in zip(self._calls, slopes, strict=False):
            if slope is not None:
                use = _call_layer(block, to_use, slope.to(dtype))
                use = _call_layer(block, unfold, use, self._n_samples)
                results.setdefault(block.name, []).append(use)
        if not results and self._blocks:
            # No gradient reaches any layer. One block of zeros tells readers how many samples.
            block = next(iter(self._blocks.values()))
            weights = self._model.get_parameter(block.parameters[0])  # whose type the others have
            results[block.name] = [weights.new_zeros(self._n_samples, *block.shape)]
        return results


def _call_layer(block: Block, call: Callable[..., Any], *arguments: Any) -> Any:
    """Return call(*arguments); raise UnfitError if shapes do not suit the block's layer."""
    try:
        return call(*arguments)
    except (RuntimeError, IndexError, ValueError) as error:
        raise UnfitError(block) from error
