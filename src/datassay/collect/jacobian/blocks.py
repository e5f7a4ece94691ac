"""Jacobian blocks: the factors of a dense layer or a convolution, or a tensor's whole Jacobian."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, slots=True)
class DenseFactors:
    """Jacobian of one dense layer's weight and bias, as factors."""

    inputs: Float[Tensor, "n n_in"]  # A
    gradients: Float[Tensor, "n k n_out"]  # Δ, which is the bias's own Jacobian
    has_bias: bool  # whether the layer trains one


@dataclass(frozen=True, slots=True)
class ConvolutionFactors:
    """Jacobian of one convolution's weight, as factors: a dense layer used at every position."""

    # A: what the kernel sees at each position of the output, n_in = channels · kernel height ·
    # kernel width, in the weight's order.
    patches: Float[Tensor, "n n_in positions"]
    gradients: Float[Tensor, "n k n_out positions"]  # Δ

    @property
    def product(self) -> Float[Tensor, "n k size"]:
        """The Jacobian Σ over positions l of Δ_l ⊗ A_l, flattened as the weight is."""
        n, k, n_out, _ = self.gradients.shape
        rows = self.gradients.flatten(1, 2)  # [n, k n_out, positions]
        return (rows @ self.patches.mT).view(n, k, n_out * self.patches.shape[1])


# [n, k, size]; unnamed, for blocks of different tensors and sample sets meet in one call.
Block = DenseFactors | Float[Tensor, "_ _ _"]


def map_block(block: Block, change: Callable[[Tensor], Tensor]) -> Block:
    """Return a block with `change` applied to each of its tensors, [n, ...]."""
    if isinstance(block, DenseFactors):
        return DenseFactors(change(block.inputs), change(block.gradients), block.has_bias)
    return change(block)


def named_tensors(blocks: Mapping[str, Block]) -> dict[str, Tensor]:
    """Return {name: tensor [n, ...]} of the blocks' tensors, without copying."""
    tensors: dict[str, Tensor] = {}
    for name, block in blocks.items():
        if isinstance(block, DenseFactors):
            tensors |= {f"inputs.{name}": block.inputs, f"gradients.{name}": block.gradients}
        else:
            tensors[f"jacobian.{name}"] = block
    return tensors
