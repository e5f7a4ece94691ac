"""Convolutions: what their kernels see, and gradients by their weights, of samples or summed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.grad import conv1d_weight, conv2d_weight


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution whose patches are formed when they are read, each time: they are large."""

    layer: nn.Conv2d | nn.Conv1d
    has_bias: bool
    size: torch.Size  # of its output, [height, width]

    def patches(self, x: Tensor) -> Float[Tensor, "b places columns"]:
        """Return what the kernel sees at each place, and a last 1 for a bias."""
        return append_ones(patches(self.layer, x).mT, self.has_bias)

    def gradients(
        self, x: Tensor, gradient: Float[Tensor, "b places rows"], n: int
    ) -> Float[Tensor, "n rows columns"]:
        """Return per-sample gradients by the weights (n = b), or their sum (n = 1)."""
        # Each of n samples is a group of channels of a convolution with n times the weights.
        layer = self.layer
        x, padding = _pad(layer, x)
        b, _, n_rows = gradient.shape
        by_output = gradient.mT.reshape(b // n, n * n_rows, *self.size)
        shape = (n * n_rows, *layer.weight.shape[1:])
        groups = n * layer.groups
        differentiate = conv2d_weight
        if isinstance(layer, nn.Conv1d):
            differentiate = conv1d_weight
        results = differentiate(
            x.reshape(b // n, -1, *x.shape[2:]),
            shape, by_output, layer.stride, padding, layer.dilation, groups,
        ).reshape(n, n_rows, -1)  # fmt: skip
        if not self.has_bias:
            return results
        return torch.cat([results, gradient.reshape(n, -1, n_rows).sum(1)[..., None]], 2)


def append_ones(inputs: Tensor, trains_bias: bool) -> Tensor:
    """Return the inputs, with a last 1 as the input of a bias that trains."""
    if trains_bias:
        return functional.pad(inputs, (0, 1), value=1.0)
    return inputs


def patches(layer: nn.Conv2d | nn.Conv1d, x: Tensor) -> Float[Tensor, "b size places"]:
    """Return the input patches that a convolution's kernel multiplies at each position."""
    # size: input channels · kernel entries. places: output positions.
    x, padding = _pad(layer, x)
    sizes = [layer.kernel_size, layer.dilation, padding, layer.stride]
    if isinstance(layer, nn.Conv1d):  # unfold knows two axes: a height of 1 is put before
        x = x[:, :, None]
        of_height = (1, 1, 0, 1)  # kernel, dilation, padding and stride
        sizes = [(height, *size) for height, size in zip(of_height, sizes, strict=True)]
    return functional.unfold(x, *map(tuple, sizes))


def _pad(layer: nn.Conv2d | nn.Conv1d, x: Tensor) -> tuple[Tensor, Sequence[int]]:
    """Return a convolution's input and the zero padding left to apply; others are applied."""
    padding: Sequence[int] = ()
    if isinstance(layer.padding, str):  # "same" or "valid"
        lost = [d * (k - 1) for k, d in zip(layer.kernel_size, layer.dilation, strict=True)]
        if layer.padding == "valid":
            lost = [0] * len(lost)
        padding = [size // 2 for size in lost]
        # An odd size is padded by one more at the end. pad() takes the last axis first.
        x = functional.pad(x, [v for size in reversed(lost) for v in (0, size % 2)])
    else:
        padding = cast("tuple", layer.padding)
    if layer.padding_mode != "zeros":
        widths = [v for size in reversed(padding) for v in (size, size)]
        x = functional.pad(x, widths, layer.padding_mode)
        padding = [0] * len(padding)
    return x, padding
