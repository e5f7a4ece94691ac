"""The neural tangent kernel, assembled from Jacobian blocks without forming the full gradient."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from datassay.collect.jacobian import Block, DenseFactors

Outputs = Literal["joint", "averaged"]


def kernel(
    left: dict[str, Block], right: dict[str, Block], outputs: Outputs, max_bytes: float = 2**28
) -> Float[Tensor, "rows columns"]:
    """Θ = Σ over tensors of J_left J_rightᵀ, in float64.

    A dense layer contributes (A Aᵀ + 1) ⊙ (Δ Δᵀ), the + 1 only where it has a bias.

    Args:
        left: blocks of n samples, k outputs each.
        right: blocks of m samples.
        outputs: "joint": [n k, m k], row i k + a for output a of sample i. "averaged": [n, m], the
            mean over outputs of the diagonal output blocks, exact for networks of infinite width.
        max_bytes: of one intermediate panel.

    Returns:
        The kernel, output unit squared over weight unit squared.

    Cost: n m (n_in + k² n_out) multiplications a dense layer for "joint", n m (n_in + k n_out) for
    "averaged"; two panels of max_bytes beyond the result.
    Source: METHODS §2, last bullet. Exact.
    """
    n, k = _sizes(left)
    m, _ = _sizes(right)
    width = k if outputs == "joint" else 1
    result = torch.zeros(n, width, m, width, dtype=torch.float64)
    panel = max(1, int(max_bytes // (8 * width * width * m)))
    for name, block in left.items():
        other = right[name]
        for start in range(0, n, panel):
            _add_panel(result[start : start + panel], block, other, slice(start, start + panel))
    return result.reshape(n * width, m * width)


def _add_panel(into: Tensor, left: Block, right: Block, rows: slice) -> None:
    """Add one tensor's Jacobian products to `into`, [rows, width, m, width], in place."""
    gradient, other = _gradients(left)[rows].double(), _gradients(right).double()
    averaged = into.shape[1] == 1
    flat = (1, -1) if averaged else (gradient.shape[1], gradient.shape[2])
    product = gradient.reshape(len(gradient) * flat[0], -1)
    product = product @ other.reshape(len(other) * flat[0], -1).T
    product = product.view(into.shape)
    if isinstance(left, DenseFactors) and isinstance(right, DenseFactors):
        inputs = left.inputs[rows].double() @ right.inputs.double().T + float(left.bias)
        product *= inputs[:, None, :, None]
    into.add_(product, alpha=1 / gradient.shape[1] if averaged else 1.0)


def _gradients(block: Block) -> Float[Tensor, "n k size"]:
    return block.gradients if isinstance(block, DenseFactors) else block


def _sizes(blocks: dict[str, Block]) -> tuple[int, int]:
    return tuple(_gradients(next(iter(blocks.values()))).shape[:2])  # type: ignore[return-value]
