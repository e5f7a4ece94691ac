"""How each kind of layer turns its input and its output's gradient into gradients by its weights.

A new kind is one function and one line in `KINDS`; weights of other layers are differentiated
directly, which is slower.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from datassay.collect.gradients.factors import Factors, Use

# From the layer, its input, its output's gradient and the number of samples, to one use of its
# weights. The weights are a matrix: a column more for the bias, where it trains.
Kind = Callable[[nn.Module, Tensor, Tensor, int, bool], Use]


def kind_of(layer: nn.Module) -> Kind | None:
    """The function for this layer.

    Args:
        layer: of any class.

    Returns:
        None where there is none.
    """
    if type(layer).__name__ == "Conv1D" and hasattr(layer, "nf"):  # of transformers' GPT-2
        return _transposed
    return KINDS.get(type(layer))


def _by_sample(values: Tensor, b: int) -> Tensor:
    """[b, places, size] of a tensor whose first axis counts samples, or parts of samples."""
    return values.reshape(b, -1, values.shape[-1])


def _with_bias(inputs: Tensor, bias: bool) -> Tensor:
    return functional.pad(inputs, (0, 1), value=1.0) if bias else inputs


def _dense(layer: nn.Module, x: Tensor, gradient: Tensor, b: int, bias: bool) -> Use:
    return Factors(_by_sample(gradient, b), _with_bias(_by_sample(x, b), bias))


def _transposed(layer: nn.Module, x: Tensor, gradient: Tensor, b: int, bias: bool) -> Use:
    """Its weight is [n_in, n_out], and the bias a row more."""
    return Factors(_with_bias(_by_sample(x, b), bias), _by_sample(gradient, b))


def _convolution(layer: nn.Module, x: Tensor, gradient: Tensor, b: int, bias: bool) -> Use:
    """A dense layer on the patch at each place; with groups, one for each of them."""
    assert isinstance(layer, nn.Conv2d | nn.Conv1d)
    patches = _patches(layer, x)  # [b, channels · kernel, places]
    gradient = gradient.reshape(b, gradient.shape[1], -1)
    if layer.groups == 1:
        return Factors(gradient.mT, _with_bias(patches.mT, bias))
    g = layer.groups
    apart = (
        gradient.reshape(b, g, -1, gradient.shape[-1])
        @ patches.reshape(b, g, -1, patches.shape[-1]).mT
    )
    whole = apart.flatten(1, 2)
    return torch.cat([whole, gradient.sum(2)[..., None]], 2) if bias else whole


def _patches(layer: nn.Conv2d | nn.Conv1d, x: Tensor) -> Tensor:
    sizes = [layer.kernel_size, layer.dilation, layer.padding, layer.stride]
    if isinstance(layer.padding, str):
        spread = [d * (k - 1) for k, d in zip(layer.kernel_size, layer.dilation, strict=True)]
        ends = [0] * len(spread) if layer.padding == "valid" else [s // 2 for s in spread]
        extra = [
            s - 2 * e if layer.padding == "same" else 0 for s, e in zip(spread, ends, strict=True)
        ]
        x = functional.pad(x, [v for more in reversed(extra) for v in (0, more)])
        sizes[2] = tuple(ends)
    if layer.padding_mode != "zeros":
        widths = [v for size in reversed(cast("tuple", sizes[2])) for v in (size, size)]
        x = functional.pad(x, widths, layer.padding_mode)
        sizes[2] = (0,) * len(layer.kernel_size)
    if isinstance(layer, nn.Conv1d):  # unfold knows two axes
        x, first = x[:, :, None], (1, 1, 0, 1)
        sizes = [(one, *size) for one, size in zip(first, sizes, strict=True)]
    kernel, dilation, padding, stride = (cast("tuple", size) for size in sizes)
    return functional.unfold(x, kernel, dilation, padding, stride)


def _embedding(layer: nn.Module, x: Tensor, gradient: Tensor, b: int, bias: bool) -> Use:
    assert isinstance(layer, nn.Embedding)
    right = _by_sample(gradient, b)
    ids = x.reshape(b, -1)
    if layer.padding_idx is not None:  # its row does not train
        right = right * (ids != layer.padding_idx)[..., None]
    return Factors(ids, right)


def _layer_norm(layer: nn.Module, x: Tensor, gradient: Tensor, b: int, bias: bool) -> Use:
    assert isinstance(layer, nn.LayerNorm)
    plain = functional.layer_norm(x, layer.normalized_shape, eps=layer.eps)
    size = layer.weight.numel()
    return _scale(plain.reshape(b, -1, size), gradient.reshape(b, -1, size), bias)


def _batch_norm(layer: nn.Module, x: Tensor, gradient: Tensor, b: int, bias: bool) -> Use:
    assert isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d)
    plain = functional.batch_norm(x, layer.running_mean, layer.running_var, eps=layer.eps)
    return _scale(_channels_last(plain, b), _channels_last(gradient, b), bias)


def _group_norm(layer: nn.Module, x: Tensor, gradient: Tensor, b: int, bias: bool) -> Use:
    assert isinstance(layer, nn.GroupNorm)
    plain = functional.group_norm(x, layer.num_groups, eps=layer.eps)
    return _scale(_channels_last(plain, b), _channels_last(gradient, b), bias)


def _channels_last(values: Tensor, b: int) -> Tensor:
    return values.reshape(b, values.shape[1], -1).mT


def _scale(plain: Tensor, gradient: Tensor, bias: bool) -> Use:
    """Of z = w ∘ x + b, [b, size, 1 or 2]."""
    by_weight = (plain * gradient).sum(1)
    return torch.stack([by_weight, gradient.sum(1)], 2) if bias else by_weight[..., None]


KINDS: dict[type[nn.Module], Kind] = {
    nn.Linear: _dense,
    nn.modules.linear.NonDynamicallyQuantizableLinear: _dense,
    nn.Conv1d: _convolution,
    nn.Conv2d: _convolution,
    nn.Embedding: _embedding,
    nn.LayerNorm: _layer_norm,
    nn.BatchNorm1d: _batch_norm,
    nn.BatchNorm2d: _batch_norm,
    nn.GroupNorm: _group_norm,
}
