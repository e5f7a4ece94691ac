"""Changes by each removal, from a few columns per block of modes instead of one per output.

W_i = z_i ⊙ (K α_i): K, [p, 2q], holds the filter's resolvents at every eigenvalue, α_i, [2q, c],
the sample's residual under them. At neighbouring eigenvalues the resolvents are alike: a block of
K's rows has a numerical rank of two to four where c is ten, and wᵀGw needs as many products with G.
"""

from __future__ import annotations

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from datassay.score.linear.eigenbasis import Eigenbasis, FeatureRows
from datassay.score.linear.panels import SYMMETRIC_ROWS, Products, doubled_upper, operand, product
from datassay.score.linear.removal import resolvent_values
from datassay.score.linear.training_run import Resolvents

# Singular values of a block below this share of its largest are left out.
RANK_CUT = 1e-12


def has_modes(basis: Eigenbasis, n_columns: int) -> bool:
    """Whether removals are cheaper by blocks of modes: outputs share rows, queries are many."""
    if not isinstance(basis.rows, FeatureRows) or basis.rows.shape[1] > 1 or n_columns == 1:
        return False
    return basis.val is None or len(basis.val) > basis.rows.shape[2]


class ModeRemovals:
    """Changes by removing each sample of a panel, never as one weight vector per output."""

    def __init__(self, basis: Eigenbasis, terms: Resolvents):
        """Prepare for many panels."""
        self._products: Products = basis.products
        self._device = basis.device
        kernel = resolvent_values(basis.eigenvalues, terms)  # [p, 2q]
        self._blocks = [_factors(kernel, s) for s in range(0, len(kernel), SYMMETRIC_ROWS)]
        self._diagonal, self._matrix = basis.eigenvalues, None
        if isinstance(basis.val, FeatureRows):
            matrix = doubled_upper(basis.val.gram(basis.engine))
            self._matrix = operand(matrix, self._products, self._device)

    def __call__(
        self, rows: Float[Tensor, "g p"], v: Complex[Tensor, "q g 1 c"]
    ) -> tuple[Float[Tensor, "g c"], Float[Tensor, " g"], Float[Tensor, " g"]]:
        """Changes of some samples."""
        alpha = torch.cat([v.real, v.imag])[:, :, 0].permute(1, 0, 2)  # [g, 2q, c]
        c = alpha.shape[2]
        own = rows.new_zeros(len(rows), c)
        weight, prediction = rows.new_zeros(2, len(rows))
        columns, mixes = [], []
        for part, left, right in self._blocks:
            if left.shape[1] < c:
                y, mix = rows[:, None, part] * left.T, right @ alpha  # [g, r, block], [g, r, c]
            else:
                y = rows[:, None, part] * (alpha.mT @ (left @ right).T)
                mix = torch.eye(c, dtype=rows.dtype).expand(len(rows), c, c)
            own += ((y @ rows[:, part, None]).mT @ mix)[:, 0]
            weight += _mixed(y @ y.mT, mix, mix)
            if self._matrix is None:
                prediction += _mixed((y * self._diagonal[part]) @ y.mT, mix, mix)
            columns.append(operand(y, self._products, self._device))
            mixes.append(mix.to(self._device))
        if self._matrix is not None:
            prediction = self._squared_length(self._matrix, columns, mixes).cpu()
        return own, weight, prediction

    def _squared_length(
        self, matrix: Tensor, columns: list[Tensor], mixes: list[Tensor]
    ) -> Float[Tensor, " g"]:
        """WᵀGW, block by block of G's upper half. A sum of squares: rounding below 0 is 0."""
        total = mixes[0].new_zeros(len(mixes[0]))
        for i, (part, _, _) in enumerate(self._blocks):
            y = columns[i]
            along = product(y.flatten(0, 1), matrix[part, part.start :], self._products)
            along = along.reshape(*y.shape[:2], -1)
            for other, against, mix in zip(self._blocks[i:], columns[i:], mixes[i:], strict=True):
                start = other[0].start - part.start
                there = along[:, :, start : start + against.shape[2]]
                total += _mixed((there @ against.mT).double(), mixes[i], mix)
        return total.clamp_min(0)


def _factors(
    kernel: Float[Tensor, "p q2"], start: int
) -> tuple[slice, Float[Tensor, "block r"], Float[Tensor, "r q2"]]:
    part = slice(start, min(start + SYMMETRIC_ROWS, len(kernel)))
    u, s, vt = torch.linalg.svd(kernel[part], full_matrices=False)
    r = max(1, int((s > RANK_CUT * s[0]).sum()))
    return part, u[:, :r] * s[:r], vt[:r]


def _mixed(
    inner: Float[Tensor, "g r t"], left: Float[Tensor, "g r c"], right: Float[Tensor, "g t c"]
) -> Float[Tensor, " g"]:
    return (left * (inner @ right)).sum((1, 2))
