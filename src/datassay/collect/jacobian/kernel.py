"""The neural tangent kernel, assembled from Jacobian blocks without forming the full gradient."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.linalg import get_lapack_funcs
from torch import Tensor

from datassay.collect.jacobian.blocks import Block, DenseFactors, map_block

Outputs = Literal["joint", "averaged"]
# Of some columns of the Jacobians in float64: more of them, and writing them takes longer.
PART_BYTES = 2**25


def kernel(
    lhs: dict[str, Block],
    rhs: dict[str, Block],
    outputs: Outputs,
    max_bytes: int = 2**28,
    *,
    device: str = "cpu",
) -> Float[Tensor, "rows columns"]:
    """Compute Θ = Σ over tensors of J_left J_rightᵀ, in float64, of n and m samples.

    A dense layer contributes (A Aᵀ + 1) ⊙ (Δ Δᵀ), the + 1 only where it has a bias.

    Returns:
        "joint": [n k, m k], row i k + a for output a of sample i. "averaged": [n, m], the mean over
        outputs of the diagonal output blocks, exact for networks of infinite width. It lies where
        `lhs` does.

    Cost: n m (n_in + k² n_out) multiplications a dense layer for "joint", n m (n_in + k n_out) for
    "averaged"; beyond the result two panels of max_bytes and, in float64, the factors of one dense
    layer or a part of other Jacobians.
    Source: METHODS §2, last bullet. Exact.
    """
    example = _gradients_of(next(iter(lhs.values())))
    n, k = example.shape[:2]
    m = len(_gradients_of(next(iter(rhs.values()))))
    width = k if outputs == "joint" else 1
    result = torch.zeros(n, width, m, width, dtype=torch.float64, device=example.device)
    panel = max(1, int(max_bytes // (8 * width * width * m)))
    for name, block in lhs.items():
        right_block = rhs[name]
        if not isinstance(block, DenseFactors) or not isinstance(right_block, DenseFactors):
            assert isinstance(block, Tensor) and isinstance(right_block, Tensor)
            _add_product(result, block, right_block, panel, max_bytes, device)
            continue
        common = _common_product(block, right_block, width, device)
        inputs = right_block.inputs.to(device).double()
        gradients = None
        if common is None:
            gradients = _rows(right_block.gradients, width, device)
        for start in range(0, n, panel):
            rows = slice(start, start + panel)
            _add_panel(
                result[rows],
                map_block(block, lambda t, index=rows: t[index]),
                inputs,
                gradients,
                common,
            )
    return result.reshape(n * width, m * width)


def _add_product(
    total: Tensor, lhs: Tensor, rhs: Tensor, panel: int, max_bytes: int, device: str
) -> None:
    """Add products of full Jacobians to `total`, [n, width, m, width], columns by columns."""
    k = lhs.shape[1]
    width = total.shape[1]
    flat = [t.reshape(len(t), width, -1) for t in (lhs, rhs)]
    columns = min(max_bytes, PART_BYTES) // (8 * width * max(len(lhs), len(rhs)))
    step = max(1, int(columns))
    for start in range(0, flat[0].shape[2], step):
        a, b = (t[..., start : start + step].to(device).double() for t in flat)
        b = b.flatten(0, 1).T
        for begin in range(0, len(lhs), panel):
            rows = slice(begin, begin + panel)
            product = (a[rows].flatten(0, 1) @ b).view(total[rows].shape)
            total[rows].add_(product.to(total.device), alpha=width / k)


def _add_panel(
    total: Tensor, lhs: Block, inputs: Tensor, gradients: Tensor | None, common: Tensor | None
) -> None:
    """Add one dense layer's products, from the right's A and Δ or a common Δ Δᵀ, to `total`."""
    assert isinstance(lhs, DenseFactors)
    k = lhs.gradients.shape[1]
    width = total.shape[1]
    device = inputs.device
    scale = (lhs.inputs.to(device).double() @ inputs.T).add_(float(lhs.bias))[:, None, :, None]
    if common is not None:
        product = common[None, :, None] * scale
    else:
        assert gradients is not None
        product = (_rows(lhs.gradients, width, device) @ gradients.T).view(total.shape).mul_(scale)
    total.add_(product.to(total.device), alpha=width / k)


def _rows(gradients: Tensor, width: int, device: str | torch.device) -> Float[Tensor, "rows size"]:
    return gradients.to(device).double().reshape(len(gradients) * width, -1)


def _common_product(lhs: DenseFactors, rhs: DenseFactors, width: int, device: str) -> Tensor | None:
    """Return Δ Δᵀ, [width, width], if all samples have one output gradient Δ; else None."""
    # So it is in the last layer, the dearest of many outputs. A few samples mostly tell; on a
    # device all are compared at once, since each comparison is waited for.
    for gradients in (lhs.gradients, rhs.gradients):
        if gradients.is_cpu:
            size = 32
        else:
            size = len(gradients)
        if not all(bool((g == gradients[:1]).all()) for g in gradients.split(size)):
            return None
    return _rows(lhs.gradients[:1], width, device) @ _rows(rhs.gradients[:1], width, device).T


def _gradients_of(block: Block) -> Float[Tensor, "n k size"]:
    if isinstance(block, DenseFactors):
        return block.gradients
    return block


# Of the landmarks' kernel, what is left of a diagonal entry below this share of the largest
# eigenvalue is left out: it is rounding, and dividing by its root would make features of it.
RANK_CUT = 1e-12


@dataclass(frozen=True, slots=True)
class Landmarks:
    """Samples from which the kernel is approximated (Nyström)."""

    blocks: Mapping[str, Block]
    pivots: Int[Tensor, " rank"]  # the landmarks that the others add nothing to
    root: Float[Tensor, "rank rank"]  # upper, rootᵀ root the pivots' kernel
    device: str = "cpu"  # where products with them are computed

    def features(self, blocks: Mapping[str, Block]) -> Float[Tensor, "rows m"]:
        """Compute Φ with ΦΦᵀ = Θ_nm Θ_mm⁺ Θ_mn, [rows, m]: a kernel and rows m² operations."""
        columns = kernel(dict(blocks), dict(self.blocks), "averaged", device=self.device)
        result = torch.zeros_like(columns)  # without a feature of what the pivots lack
        pivoted = columns[:, self.pivots]
        rank = len(self.pivots)
        result[:, :rank] = torch.linalg.solve_triangular(self.root, pivoted, upper=True, left=False)
        return result


def landmarks(blocks: Mapping[str, Block], *, device: str = "cpu") -> Landmarks:
    """Turn samples into landmarks (Nyström; Williams and Seeger 2001), by kernel pivots."""
    # A pivoted Cholesky decomposition takes a thirtieth of the operations of an eigenproblem.
    theta = kernel(dict(blocks), dict(blocks), "averaged", device=device)
    theta = (theta + theta.T) / 2
    largest = float(theta.abs().sum(1).max())  # at least the largest eigenvalue
    factored: Any = get_lapack_funcs("pstrf", (theta.numpy(),))
    root, order, rank, _ = factored(theta.numpy(), tol=RANK_CUT * largest)
    pivots = torch.from_numpy(order[:rank].astype(np.int64) - 1).to(device)
    upper = np.ascontiguousarray(np.triu(root[:rank, :rank]))
    moved = {name: map_block(block, lambda t: t.to(device)) for name, block in blocks.items()}
    return Landmarks(moved, pivots, torch.from_numpy(upper).to(device), device)


def landmark_positions(ids: np.ndarray, n_landmarks: int, seed: int) -> Int[np.ndarray, " m"]:
    """Draw landmarks by id: return ascending positions, whatever the order of the rows."""
    by_id = np.argsort(ids, kind="stable")
    return np.sort(by_id[np.random.default_rng(seed).permutation(len(ids))[:n_landmarks]])
