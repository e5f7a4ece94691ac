"""Jacobian blocks: the factors of a dense layer or a convolution, or a tensor's whole Jacobian."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, slots=True)
class DenseFactors:
    """Jacobian of one dense layer's weight and bias, as factors.

    Attributes:
        inputs: A, [n, n_in].
        gradients: Δ, [n, k, n_out].
        bias: whether the layer trains a bias, whose Jacobian is Δ itself.
    """

    inputs: Float[Tensor, "n n_in"]
    gradients: Float[Tensor, "n k n_out"]
    bias: bool


@dataclass(frozen=True, slots=True)
class ConvolutionFactors:
    """Jacobian of one convolution's weight, as factors: a dense layer used at every position.

    Attributes:
        patches: A, [n, n_in, positions]: what the kernel sees at each position of the output, n_in
            = channels · kernel height · kernel width, in the weight's order.
        gradients: Δ, [n, k, n_out, positions].
    """

    patches: Float[Tensor, "n n_in positions"]
    gradients: Float[Tensor, "n k n_out positions"]

    @property
    def product(self) -> Float[Tensor, "n k size"]:
        """The Jacobian Σ over positions l of Δ_l ⊗ A_l, flattened as the weight is."""
        n, k, n_out, _ = self.gradients.shape
        rows = self.gradients.flatten(1, 2)  # [n, k n_out, positions]
        return (rows @ self.patches.mT).view(n, k, n_out * self.patches.shape[1])


# [n, k, size]; unnamed, for blocks of different tensors and sample sets meet in one call.
Block = DenseFactors | Float[Tensor, "_ _ _"]


def allocate(block: Block, n: int) -> Block:
    """Room in main memory for n samples of this block's kind, not yet written."""
    if isinstance(block, DenseFactors):
        return DenseFactors(_room(block.inputs, n), _room(block.gradients, n), block.bias)
    return _room(block, n)


def take(block: Block, samples: slice) -> Block:
    """The block of some of the samples, a view."""
    if isinstance(block, DenseFactors):
        return DenseFactors(block.inputs[samples], block.gradients[samples], block.bias)
    return block[samples]


def values(blocks: Mapping[str, Block]) -> list[Tensor]:
    """The tensors that hold the blocks, each [n, ...]."""
    tensors: list[Tensor] = []
    for block in blocks.values():
        tensors += [block.inputs, block.gradients] if isinstance(block, DenseFactors) else [block]
    return tensors


def named_tensors(blocks: Mapping[str, Block]) -> dict[str, Tensor]:
    """The tensors that hold the blocks, [n, ...], by names of their own; the same memory."""
    tensors: dict[str, Tensor] = {}
    for name, block in blocks.items():
        if isinstance(block, DenseFactors):
            tensors |= {f"inputs.{name}": block.inputs, f"gradients.{name}": block.gradients}
        else:
            tensors[f"jacobian.{name}"] = block
    return tensors


def _room(like: Tensor, n: int) -> Tensor:
    return torch.empty(n, *like.shape[1:], dtype=like.dtype)
