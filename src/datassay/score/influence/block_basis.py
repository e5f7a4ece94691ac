"""Gauss–Newton Hessian of each block of weights, in its eigenbasis: exact, or Kronecker-factored.

A block's part of the mean loss's Hessian is H = (1/n) Σ_i J_iᵀ S_i J_i, S_i the Hessian of the loss
in the outputs. Exact: H + damping = L Lᵀ, or its eigenvectors. EK-FAC: U = U_left ⊗ U_right from
second moments of the layer's two factors, and λ the second moments of the gradients in that basis,
which is the closest to H among all with this basis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from datassay.collect.gradients.blocks import Block
from datassay.collect.gradients.factors import (
    Use,
    matrix,
    restricted,
    rotated,
    second_moments,
    touched,
)
from datassay.collect.gradients.per_sample import Gradients
from datassay.errors import SettingError

# Blocks of up to this many weights are exact, the smallest first, as long as all of them together
# take no more than so many operations, half a minute or so.
LARGEST_EXACT = 4096
MOST_OPERATIONS = 1e12
# Kronecker factors of up to this many rows have their eigenbasis; larger ones stay as they are.
LARGEST_SIDE = 4096


@dataclass(slots=True)
class BlockBasis:
    """Eigenbasis and eigenvalues of one block's Hessian.

    Attributes:
        block: the weights.
        whole: of an exact block, [size, size]: L⁻ᵀ, with H + damping = L Lᵀ, where what is left has
            eigenvalues 1; or U.
        left: U_left, [rows, rows], of a factored one; None where rows stay as they are.
        right: U_right, [columns, columns]; likewise.
        eigenvalues: λ, [size] or [rows, columns], in float64, at least 0.
        damping: added to λ, absolute.
        response: what stands for 1 / (λ + damping), of λ's shape; None: that.
    """

    block: Block
    whole: Float[Tensor, "size size"] | None
    left: Float[Tensor, "rows rows"] | None
    right: Float[Tensor, "columns columns"] | None
    eigenvalues: Tensor
    damping: float = 0.0
    response: Tensor | None = None

    def coordinates(
        self, uses: list[Use], chosen: Tensor | None = None
    ) -> tuple[Float[Tensor, "b p"], Tensor | None]:
        """Gradients in the basis.

        Args:
            uses: of the block.
            chosen: rows of the weights to take, where others are 0; None: as `touched` says.

        Returns:
            [b, size], or of some rows [b, r columns]; and which rows, None for all.
        """
        rows = self.block.shape[0]
        if self.whole is not None:
            return matrix(uses, rows).flatten(1) @ self.whole, None
        turned = rotated(uses, self.left, self.right)
        chosen = touched(turned) if chosen is None and self.left is None else chosen
        if chosen is None:
            return matrix(turned, rows).flatten(1), None
        return matrix(restricted(turned, chosen), len(chosen)).flatten(1), chosen

    def inverse(self, rows: Tensor | None = None) -> Float[Tensor, " p"]:
        """1 / (λ + damping), or the response, flat.

        Args:
            rows: of the weights; None: all.

        Returns:
            0 where both are.
        """
        if self.response is not None:
            return (self.response if rows is None else self.response[rows]).flatten()
        total = self.eigenvalues + self.damping
        total = (total if rows is None else total[rows.to(total.device)]).flatten()
        return torch.where(total > 0, 1 / torch.where(total > 0, total, 1.0), 0.0)

    def forth(self, gradients: Float[Tensor, "b size"]) -> Float[Tensor, "b size"]:
        """From the weights' own axes to coordinates.

        Args:
            gradients: flat.

        Returns:
            In the basis.
        """
        if self.whole is not None:
            return gradients @ self.whole
        found = gradients.view(-1, *self.block.shape)
        found = found if self.left is None else self.left.T @ found
        return (found if self.right is None else found @ self.right).flatten(1)

    def back(self, coordinates: Float[Tensor, "b size"]) -> Float[Tensor, "b size"]:
        """From coordinates to the weights' own axes, where the basis is orthonormal.

        Args:
            coordinates: in the basis.

        Returns:
            Flat vectors of the block.
        """
        if self.whole is not None:
            return coordinates @ self.whole.T
        found = coordinates.view(-1, *self.block.shape)
        found = found if self.left is None else self.left @ found
        return (found if self.right is None else found @ self.right.T).flatten(1)


# Goes through all samples and gives their gradients by the loss's outputs, batch by batch.
Roots = Callable[[], Iterable[Gradients]]


def block_bases(
    blocks: list[Block],
    roots: Roots,
    n: int,
    *,
    exact: Callable[[Block], bool],
    damping: Callable[[Block], float],
    weight_decay: float = 0.0,
    spectral: bool = False,
) -> dict[str, BlockBasis]:
    """Fit each block's basis.

    Args:
        blocks: of the weights.
        roots: each pass yields gradients J_iᵀ v with Σ v vᵀ = S_i, or its mean.
        n: samples.
        exact: whether a block is to be exact.
        damping: of a block, relative to its mean eigenvalue.
        weight_decay: added to every eigenvalue, absolute.
        spectral: eigenvectors of exact blocks, instead of a Cholesky factor: ten times slower.

    Returns:
        Block name → basis; blocks without any curvature are left out.

    Raises:
        SettingError: an exact block cannot be inverted.

    Cost: one pass, and another where a block is factored; 2 n size² a vector and size³ for exact
        blocks; rows³ + columns³ for factored ones. A block's λ twice,
        and size² or rows² + columns².
    Source: George et al. (2018), EK-FAC. Damping by block as Grosse et al. (2023). Deviates:
        blocks that are small enough are exact; scales of norms, biases and embeddings have theirs.
    """
    small = {block.name for block in blocks if exact(block)}
    grams, bases, dtype = _first_pass(blocks, roots, small)
    if len(small) < len(blocks):
        for gradients in roots():
            for name, uses in gradients.items():
                if name in bases:
                    _add_squares(bases[name], uses, n)
    for basis in bases.values():
        basis.damping = damping(basis.block) * float(basis.eigenvalues.mean()) + weight_decay
    for block in blocks:
        if block.name in grams:
            whole, penalty = grams.pop(block.name).div_(n), (damping(block), weight_decay)
            bases[block.name] = _exact(block, whole, dtype, penalty, spectral=spectral)
    return {b.name: bases[b.name] for b in blocks if b.name in bases and _curved(bases[b.name])}


def _curved(basis: BlockBasis) -> bool:
    return bool((basis.eigenvalues + basis.damping > 0).any())


def _first_pass(
    blocks: list[Block], roots: Roots, small: set[str]
) -> tuple[dict[str, Tensor], dict[str, BlockBasis], torch.dtype]:
    """Gram matrices of small blocks; bases of the others, still without eigenvalues; precision."""
    grams: dict[str, Tensor] = {}
    waiting: dict[str, list[Tensor]] = {}
    sides: dict[str, tuple[Tensor | None, Tensor | None]] = {}
    bases: dict[str, BlockBasis] = {}
    shapes, dtype = {block.name: block.shape for block in blocks}, torch.float32
    for gradients in roots():
        for name, uses in gradients.items():
            dtype = _dtype(uses)
            if name in small:
                held = waiting.setdefault(name, [])
                held.append(matrix(uses, shapes[name][0]).flatten(1))
                # Many rows a product: it costs size² to add one up in float64.
                if sum(map(len, held)) >= held[0].shape[1]:
                    _add_gram(grams, name, waiting.pop(name))
            else:
                left, right = second_moments(uses, LARGEST_SIDE)
                old = sides.get(name, (None, None))
                sides[name] = (_sum(old[0], left), _sum(old[1], right))
    for name, held in waiting.items():
        _add_gram(grams, name, held)
    for block in blocks:
        if block.name in sides:
            left, right = (_vectors(side, dtype) for side in sides.pop(block.name))
            empty = torch.zeros(block.shape, dtype=torch.float64)
            bases[block.name] = BlockBasis(block, None, left, right, empty)
    return grams, bases, dtype


def _add_gram(grams: dict[str, Tensor], name: str, held: list[Tensor]) -> None:
    rows = torch.cat(held)
    more = (rows.T @ rows).double()
    grams[name] = more if name not in grams else grams[name].add_(more)


def _exact(
    block: Block,
    hessian: Float[Tensor, "size size"],
    dtype: torch.dtype,
    penalty: tuple[float, float],
    *,
    spectral: bool,
) -> BlockBasis:
    damping = penalty[0] * float(hessian.diagonal().mean()) + penalty[1]
    if spectral:
        values, vectors = torch.linalg.eigh(hessian)
        # Positive semidefinite; rounding makes the smallest negative.
        return BlockBasis(block, vectors.to(dtype), None, None, values.clamp_min(0), damping)
    ones = torch.ones(block.size, dtype=torch.float64)
    if not hessian.any() and not damping:
        return BlockBasis(block, None, None, None, torch.zeros(block.shape).double())
    hessian.diagonal().add_(damping)
    lower, failed = torch.linalg.cholesky_ex(hessian)
    if failed:
        raise SettingError(
            f"damping must make every block's Hessian positive definite; that of {block.name!r} is "
            f"singular at {penalty[0]:g} of its mean eigenvalue. Raise damping; 0.1 is the default."
        )
    whitening = torch.linalg.solve_triangular(
        lower, torch.eye(block.size, dtype=torch.float64).to(lower), upper=False
    ).T
    return BlockBasis(block, whitening.to(dtype), None, None, ones)


def _sum(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a.add_(b)


def _vectors(side: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    if side is None or len(side) == 1:
        return None
    return torch.linalg.eigh(side)[1].to(dtype)


def _dtype(uses: list[Use]) -> torch.dtype:
    first = uses[0]
    return first.dtype if isinstance(first, Tensor) else first.right.dtype


def _add_squares(basis: BlockBasis, uses: list[Use], n: int) -> None:
    found, rows = basis.coordinates(uses)
    squares = found.square().sum(0).double() / n
    basis.eigenvalues = basis.eigenvalues.to(squares)  # where the gradients are
    if rows is None:
        basis.eigenvalues += squares.view(basis.block.shape)
    else:
        basis.eigenvalues.index_add_(0, rows, squares.view(len(rows), -1))


def gradient_coordinates(
    bases: dict[str, BlockBasis], gradients: Gradients
) -> Iterator[tuple[BlockBasis, Float[Tensor, "b p"], Tensor | None]]:
    """A batch's gradients in each block's basis.

    Args:
        bases: of the blocks.
        gradients: of the batch; blocks that have none there are left out.

    Yields:
        The basis, the coordinates, and which rows of the weights they are of; None: all.
    """
    for name, basis in bases.items():
        if name in gradients:
            yield (basis, *basis.coordinates(gradients[name]))
