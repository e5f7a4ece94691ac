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
# Bytes of float64 Jacobians that are multiplied at once; more of them are slower to write.
PART_BYTES = 2**25


def kernel(
    lhs: dict[str, Block],
    rhs: dict[str, Block],
    outputs: Outputs,
    max_bytes: int = 2**28,
    *,
    device: str = "cpu",
) -> Float[Tensor, "rows columns"]:
    """Return Θ = Σ over tensors of J_lhs J_rhsᵀ, in float64, of n and m samples.

    A dense layer contributes (A Aᵀ + 1) ⊙ (Δ Δᵀ), A being its inputs and Δ its output gradients,
    the + 1 only where it has a bias.

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
        gram = _find_common_gram(block, right_block, width, device)
        inputs = right_block.inputs.to(device).double()
        gradients = None
        if gram is None:
            gradients = _rows(right_block.gradients, width, device)
        for start in range(0, n, panel):
            rows = slice(start, start + panel)
            left_part = map_block(block, lambda t, index=rows: t[index])
            _add_panel(result[rows], left_part, inputs, gradients, gram)
    return result.reshape(n * width, m * width)


def _add_product(
    total: Tensor, lhs: Tensor, rhs: Tensor, panel: int, max_bytes: int, device: str
) -> None:
    """Add lhs rhsᵀ of full Jacobians [·, k, size] to `total` [n, width, m, width], in place."""
    # In parts of `step` columns and `panel` rows; the mean over outputs where width is 1.
    k = lhs.shape[1]
    width = total.shape[1]
    flat_lhs = lhs.reshape(len(lhs), width, -1)
    flat_rhs = rhs.reshape(len(rhs), width, -1)
    n_columns = min(max_bytes, PART_BYTES) // (8 * width * max(len(lhs), len(rhs)))
    step = max(1, int(n_columns))
    for start in range(0, flat_lhs.shape[2], step):
        columns = slice(start, start + step)
        lhs_part = flat_lhs[..., columns].to(device).double()
        rhs_part = flat_rhs[..., columns].to(device).double().flatten(0, 1).T
        for begin in range(0, len(lhs), panel):
            rows = slice(begin, begin + panel)
            product = (lhs_part[rows].flatten(0, 1) @ rhs_part).view(total[rows].shape)
            total[rows].add_(product.to(total.device), alpha=width / k)


def _add_panel(
    total: Tensor, lhs: Block, inputs: Tensor, gradients: Tensor | None, gram: Tensor | None
) -> None:
    """Add a dense layer's (A Aᵀ + 1) ⊙ (Δ Δᵀ) to `total`, [panel, width, m, width]."""
    # `inputs` and `gradients` are A and Δ of the right side. `gram`: Δ Δᵀ, where all samples share
    # one Δ; `gradients` is None then.
    assert isinstance(lhs, DenseFactors)
    k = lhs.gradients.shape[1]
    width = total.shape[1]
    device = inputs.device
    scale = (lhs.inputs.to(device).double() @ inputs.T).add_(float(lhs.has_bias))[:, None, :, None]
    if gram is not None:
        product = gram[None, :, None] * scale
    else:
        assert gradients is not None
        product = (_rows(lhs.gradients, width, device) @ gradients.T).view(total.shape).mul_(scale)
    total.add_(product.to(total.device), alpha=width / k)


def _rows(gradients: Tensor, width: int, device: str | torch.device) -> Float[Tensor, "rows size"]:
    """Return gradients, [n, k, n_out], in float64 with `width` rows per sample: k or 1."""
    return gradients.to(device).double().reshape(len(gradients) * width, -1)


def _find_common_gram(
    lhs: DenseFactors, rhs: DenseFactors, width: int, device: str
) -> Tensor | None:
    """Return Δ Δᵀ, [width, width], if all samples share one output gradient Δ; else None."""
    # So it is in the last layer, the dearest of many outputs. On the processor the first 32 samples
    # mostly tell; on a device all are compared at once, since each comparison is waited for.
    for gradients in (lhs.gradients, rhs.gradients):
        size = 32 if gradients.is_cpu else len(gradients)
        if not all(bool((g == gradients[:1]).all()) for g in gradients.split(size)):
            return None
    return _rows(lhs.gradients[:1], width, device) @ _rows(rhs.gradients[:1], width, device).T


def _gradients_of(block: Block) -> Float[Tensor, "n k size"]:
    if isinstance(block, DenseFactors):
        return block.gradients
    return block


# The landmarks' Cholesky decomposition ends where what remains of each diagonal entry is below this
# share of the largest eigenvalue: that is rounding, of which dividing by its root makes features.
RANK_CUT = 1e-12


@dataclass(frozen=True, slots=True)
class Landmarks:
    """Samples from which the kernel is approximated (Nyström)."""

    blocks: Mapping[str, Block]
    pivots: Int[Tensor, " rank"]  # positions of landmarks; the others add nothing to these
    root: Float[Tensor, "rank rank"]  # upper, rootᵀ root the pivots' kernel
    device: str = "cpu"  # where products with them are computed

    def features(self, blocks: Mapping[str, Block]) -> Float[Tensor, "rows m"]:
        """Return Nyström features Φ, [rows, m], with ΦΦᵀ = Θ_nm Θ_mm⁺ Θ_mn."""
        # Its last m − rank columns are 0. Cost: the kernel Θ_nm and n m² operations.
        columns = kernel(dict(blocks), dict(self.blocks), "averaged", device=self.device)
        result = torch.zeros_like(columns)
        pivoted = columns[:, self.pivots]
        rank = len(self.pivots)
        result[:, :rank] = torch.linalg.solve_triangular(self.root, pivoted, upper=True, left=False)
        return result


def landmarks(blocks: Mapping[str, Block], *, device: str = "cpu") -> Landmarks:
    """Return landmarks with a pivoted Cholesky factor of their kernel (Nyström)."""
    # A pivoted Cholesky decomposition takes a thirtieth of the operations of an eigenproblem.
    theta = kernel(dict(blocks), dict(blocks), "averaged", device=device)
    theta = (theta + theta.T) / 2
    largest = float(theta.abs().sum(1).max())  # at least the largest eigenvalue
    pivoted_cholesky: Any = get_lapack_funcs("pstrf", (theta.numpy(),))
    root, order, rank, _ = pivoted_cholesky(theta.numpy(), tol=RANK_CUT * largest)
    pivots = torch.from_numpy(order[:rank].astype(np.int64) - 1).to(device)  # LAPACK counts from 1
    upper = np.ascontiguousarray(np.triu(root[:rank, :rank]))
    moved = {name: map_block(block, lambda t: t.to(device)) for name, block in blocks.items()}
    return Landmarks(moved, pivots, torch.from_numpy(upper).to(device), device)


def landmark_positions(ids: np.ndarray, n_landmarks: int, seed: int) -> Int[np.ndarray, " m"]:
    """Return ascending positions of random landmarks, independent of the rows' order."""
    by_id = np.argsort(ids, kind="stable")
    drawn = np.random.default_rng(seed).permutation(len(ids))[:n_landmarks]
    return np.sort(by_id[drawn])
