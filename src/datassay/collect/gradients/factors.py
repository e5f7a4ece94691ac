"""Gradients of each sample by one block of weights: as factors, or whole."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Factors:
    """Gradients Σ_t left_t ⊗ right_t, over the places t where a sample uses the weights.

    Attributes:
        left: [b, places, rows], or [b, places]: the one row that is 1 (a token id).
        right: [b, places, columns].
    """

    left: Float[Tensor, "b places rows"] | Int[Tensor, "b places"]
    right: Float[Tensor, "b places columns"]

    @property
    def is_sparse(self) -> bool:
        """Whether the left factors are single rows, by number."""
        return not self.left.is_floating_point()


# One use of the weights in a forward pass: its factors, or its gradients, [b, rows, columns].
Use = Factors | Float[Tensor, "_ _ _"]


def tensors_of(use: Use) -> list[Tensor]:
    """What a use holds.

    Args:
        use: factors, or whole gradients.

    Returns:
        Its tensors.
    """
    return [use.left, use.right] if isinstance(use, Factors) else [use]


def matrix(uses: list[Use], rows: int) -> Float[Tensor, "b rows columns"]:
    """The gradients themselves, summed over all uses of the weights.

    Args:
        uses: at least one.
        rows: of the weights as a matrix.

    Returns:
        One matrix a sample.

    Cost: b · places · rows · columns multiply-adds a use.
    """
    total = _formed(uses[0], rows)
    for use in uses[1:]:
        total = total + _formed(use, rows)
    return total


def touched(uses: list[Use]) -> Int[Tensor, " r"] | None:
    """Rows of the weights that any sample of the batch uses, where that is known.

    Args:
        uses: of a block.

    Returns:
        Their numbers in order; None where all may be.
    """
    ids = [use.left.flatten() for use in uses if isinstance(use, Factors) and use.is_sparse]
    return torch.cat(ids).unique() if len(ids) == len(uses) else None


def restricted(uses: list[Use], rows: Int[Tensor, " r"]) -> list[Use]:
    """The same uses with their rows numbered within a selection.

    Args:
        uses: all sparse.
        rows: as `touched` gives them.

    Returns:
        Uses of a matrix with r rows.
    """
    return [
        Factors(torch.searchsorted(rows, use.left), use.right)
        for use in uses
        if isinstance(use, Factors)
    ]


def rotated(
    uses: list[Use], left: Float[Tensor, "rows rows"] | None, right: Float[Tensor, "c c"] | None
) -> list[Use]:
    """Gradients in another basis: leftᵀ G right.

    Args:
        uses: of a block.
        left: orthonormal columns; None: as they are.
        right: likewise.

    Returns:
        The rotated uses, in the form that costs fewer operations.
    """
    return [_rotated(use, left, right) for use in uses]


def _rotated(use: Use, left: Tensor | None, right: Tensor | None) -> Use:
    if isinstance(use, Factors):
        places = use.right.shape[1]
        n_left = 0 if left is None else len(left)
        n_right = 0 if right is None else len(right)
        both = n_left * n_right
        if use.is_sparse or places * (n_left**2 + n_right**2) <= both * (n_left + n_right):
            a = use.left if left is None or use.is_sparse else use.left @ left
            return Factors(a, use.right if right is None else use.right @ right)
        use = _formed(use, use.left.shape[-1])
    whole = use if left is None else left.T @ use
    return whole if right is None else whole @ right


def _formed(use: Use, rows: int) -> Tensor:
    if not isinstance(use, Factors):
        return use
    if not use.is_sparse:
        if use.left.shape[1] == 1:  # one place: an outer product, which needs no summing
            return use.left[:, 0, :, None] * use.right[:, 0, None, :]
        return use.left.mT @ use.right
    b, places, columns = use.right.shape
    whole = use.right.new_zeros(b * rows, columns)
    at = use.left + rows * torch.arange(b, device=use.left.device)[:, None]
    return whole.index_add_(0, at.flatten(), use.right.reshape(b * places, columns)).view(
        b, rows, columns
    )


def second_moments(uses: list[Use], largest: int) -> tuple[Tensor | None, Tensor | None]:
    """Σ over samples and places of left leftᵀ and of right rightᵀ: Kronecker factors.

    Args:
        uses: of a block.
        largest: rows or columns that a factor may have.

    Returns:
        [rows, rows] and [columns, columns], in float64; of whole gradients Σ G Gᵀ and Σ Gᵀ G. None
        where it would be larger, or where left factors are single rows.
    """
    sides: list[Tensor | None] = [None, None]
    sparse = any(isinstance(use, Factors) and use.is_sparse for use in uses)
    for use in uses:
        if isinstance(use, Factors):
            rows = (use.left.flatten(0, 1), use.right.flatten(0, 1))
        else:
            rows = (use.mT.flatten(0, 1), use.flatten(0, 1))
        for side, one in enumerate(rows):
            if (side == 0 and sparse) or one.shape[-1] > largest:
                continue
            gram = (one.T @ one).double()
            before = sides[side]
            sides[side] = gram if before is None else before + gram
    return sides[0], sides[1]
