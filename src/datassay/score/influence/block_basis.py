"""Gauss–Newton Hessian of each block of weights, in its eigenbasis: exact, or Kronecker-factored.

A block's part of the mean loss's Hessian is H = (1/n) Σ_i J_iᵀ S_i J_i, S_i the Hessian of the loss
in the outputs. Exact: H + damping = L Lᵀ, or its eigenvectors. EK-FAC: U = U_left ⊗ U_right from
second moments of the layer's two factors, and λ the second moments of the gradients in that basis,
which is the closest to H among all with this basis.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from datassay.collect.gradients.blocks import Block
from datassay.collect.gradients.recording import Gradients
from datassay.collect.layers import (
    Factors,
    Use,
    matrix,
    restrict,
    rotate,
    second_moments,
    tensors_of,
    used_rows,
)
from datassay.errors import SettingError
from datassay.optional import drop_none
from datassay.score.influence.exact_blocks import LARGEST_SIDE, Penalty, damping_of
from datassay.score.influence.optimizer_state import Metric
from datassay.score.influence.short_training import ShortTraining, quadrature
from datassay.score.linear.panels import add_products, complete_lower, invert_root, times_upper

# Rows of factors, or gradients, that are multiplied at once: it costs size² to add a product up in
# float64.
PLACES = 1024
NO_METRICS: Mapping[str, Metric] = {}


@dataclass(slots=True)
class BlockBasis:
    """Eigenbasis and eigenvalues of one block's Hessian.

    Attributes:
        block: the weights.
        dense_basis: of an exact block, [size, size]: L⁻ᵀ, with H + damping = L Lᵀ, in which the
            Hessian has eigenvalues 1; or U.
        row_basis: U_left, [rows, rows], of a factored one; None where rows stay as they are.
        column_basis: U_right, [columns, columns]; likewise.
        eigenvalues: λ, [size] or [rows, columns], in float64, at least 0.
        damping: added to λ, absolute.
        response: what stands for 1 / (λ + damping), of λ's shape; None: that.
        steps: D of a metric, of λ's shape: the basis is of √D H √D, and √D is in `dense_basis`,
            `row_basis` and `column_basis`.
        outside_steps: the part of D that belongs to sides without a basis, likewise: it is in λ and
            the response instead.
        is_triangular: whether `dense_basis` is 0 below its diagonal.
    """

    block: Block
    dense_basis: Float[Tensor, "size size"] | None
    row_basis: Float[Tensor, "rows rows"] | None
    column_basis: Float[Tensor, "columns columns"] | None
    eigenvalues: Tensor
    damping: float = 0.0
    response: Tensor | None = None
    steps: Tensor | None = None
    outside_steps: Tensor | None = None
    is_triangular: bool = False

    def coordinates(
        self, uses: list[Use], row_idx: Tensor | None = None
    ) -> tuple[Float[Tensor, "b p"], Tensor | None]:
        """Return gradients in the basis, [b, p], and the weight rows covered; None: all rows."""
        # uses: the layer's factors of a batch's gradients. row_idx: rows of the weight matrix to
        # return; None: those in use, where rows have no basis.
        n_rows = self.block.shape[0]
        if self.dense_basis is not None:
            return self._times_dense(matrix(uses, n_rows).flatten(1)), None
        rotated = [rotate(use, self.row_basis, self.column_basis) for use in uses]
        if row_idx is None and self.row_basis is None:
            row_idx = used_rows(rotated)
        if row_idx is None:
            return matrix(rotated, n_rows).flatten(1), None
        return matrix(restrict(rotated, row_idx), len(row_idx)).flatten(1), row_idx

    def sum_squares(self, uses: list[Use]) -> tuple[Float[Tensor, " p"], Tensor | None]:
        """Return squared coordinates summed over samples, float64, and the weight rows covered."""
        use = uses[0]
        if len(uses) == 1 and isinstance(use, Factors) and not use.is_sparse:
            if use.lhs.shape[1] == 1:  # one outer product a sample: so are its squares
                rotated = rotate(use, self.row_basis, self.column_basis)
                if isinstance(rotated, Factors):
                    squares = rotated.lhs[:, 0].square().T @ rotated.rhs[:, 0].square()
                    return squares.flatten().double(), None
        coordinates, rows = self.coordinates(uses)
        return coordinates.square().sum(0).double(), rows

    def inverse(self, rows: Tensor | None = None) -> Float[Tensor, " p"]:
        """Return P in the basis, flat: 1 / (λ + damping), or `response`; rows None: all."""
        # 0 where λ and damping are 0.
        if self.response is not None:
            response = self.response if rows is None else self.response[rows]
            return response.flatten()
        total = self.eigenvalues + self.damping
        if rows is not None:
            total = total[rows.to(total.device)]
        total = total.flatten()
        return torch.where(total > 0, total.reciprocal(), 0.0)

    def to_basis(self, gradients: Float[Tensor, "b size"]) -> Float[Tensor, "b size"]:
        """Return the coordinates of gradients that are given by weights, flat."""
        if self.dense_basis is not None:
            return self._times_dense(gradients)
        rotated = gradients.view(-1, *self.block.shape)
        if self.row_basis is not None:
            rotated = self.row_basis.T @ rotated
        if self.column_basis is not None:
            rotated = rotated @ self.column_basis
        return rotated.flatten(1)

    def _times_dense(self, gradients: Float[Tensor, "b size"]) -> Float[Tensor, "b size"]:
        assert self.dense_basis is not None
        if self.is_triangular:
            return times_upper(gradients, self.dense_basis)
        return gradients @ self.dense_basis

    def to_weight_axes(self, coordinates: Float[Tensor, "b size"]) -> Float[Tensor, "b size"]:
        """Return Q c by weights, flat: gᵀ (Q c) is the product of g's coordinates with c."""
        if self.dense_basis is not None:
            return coordinates @ self.dense_basis.T
        directions = coordinates.view(-1, *self.block.shape)
        if self.row_basis is not None:
            directions = self.row_basis @ directions
        if self.column_basis is not None:
            directions = directions @ self.column_basis.T
        return directions.flatten(1)

    def to_weights(self, coordinates: Float[Tensor, "b size"]) -> Float[Tensor, "b size"]:
        """Return gradients by weights from their coordinates: the inverse of `to_basis`."""
        weights = self.to_weight_axes(coordinates)
        if self.steps is None:
            return weights
        # (√D Q)⁻¹ = (√D Q)ᵀ / D. A weight with the step 0 never moves.
        steps = self.steps.flatten().to(weights)
        return torch.where(steps > 0, weights / steps, 0.0)


# Sums over samples, by block's name and what is summed: GRAM, SQUARES or one of SIDES.
Sums = dict[tuple[str, str], Tensor]
GRAM = "gram"
SQUARES = "squares"
SIDES = ("left", "right")
# Starts a pass over all samples that yields gradients by the loss's outputs, batch by batch.
Roots = Callable[[], Iterable[Gradients]]


def block_bases(
    blocks: list[Block],
    roots: Roots,
    n: int,
    penalty_of: Mapping[str, Penalty],
    *,
    is_exact: Callable[[Block], bool],
    is_spectral: bool = False,
    dtype: torch.dtype = torch.float32,
    metrics: Mapping[str, Metric] = NO_METRICS,
    training: ShortTraining | None = None,
) -> dict[str, BlockBasis]:
    """Fit an eigenbasis of each block's Hessian; blocks without curvature are left out."""
    # roots: each pass yields gradients J_iᵀ v with Σ v vᵀ = S_i, or its mean. penalty_of: by
    # block's name, as of `penalties`. is_exact: of a block; others are factored. is_spectral:
    # eigenvectors of exact blocks, instead of a Cholesky factor: ten times slower. metrics: D and
    # Λ; bases are of √D H √D + Λ then. training: what it left to learn, which adds to the damping
    # of all.
    # Cost: one pass, and another where a block is factored; 2 n size² a vector and size³ for exact
    # blocks; rows³ + columns³ for factored ones. Memory: λ twice, size² or rows² + columns².
    # Source: George et al. (2018), EK-FAC. Damping by block as Grosse et al. (2023). Deviates:
    # blocks that are small enough are exact; scales of norms, biases and embeddings have theirs.
    sums = first_sums(blocks, roots(), {block.name for block in blocks if is_exact(block)})
    bases = kronecker_bases(blocks, sums, dtype, metrics)
    if bases:
        sums |= square_sums(bases, roots())
    return fit_bases(
        blocks, bases, sums, n, penalty_of, metrics, training, is_spectral=is_spectral, dtype=dtype
    )


def fit_bases(
    blocks: list[Block],
    bases: dict[str, BlockBasis],
    sums: Sums,
    n: int,
    penalty_of: Mapping[str, Penalty],
    metrics: Mapping[str, Metric] = NO_METRICS,
    training: ShortTraining | None = None,
    *,
    is_spectral: bool,
    dtype: torch.dtype,
) -> dict[str, BlockBasis]:
    """Return the blocks' bases with damped eigenvalues, from `sums` over n samples (emptied)."""
    # bases: those of `kronecker_bases`, completed here. Otherwise as `block_bases`.
    for name, basis in bases.items():
        basis.eigenvalues = sums.pop((name, SQUARES)) / n
        if basis.outside_steps is not None:
            basis.eigenvalues *= basis.outside_steps.to(basis.eigenvalues)
    hessians = {b.name: sums.pop((b.name, GRAM)).div_(n) for b in blocks if (b.name, GRAM) in sums}
    if training is not None:  # what it has left to learn counts as a decay of all blocks alike
        added = training.solve(_decrement_terms(training.gradients, bases, hessians, penalty_of))
        penalty_of = {name: Penalty(p.share, p.decay + added) for name, p in penalty_of.items()}
    for name, basis in bases.items():
        mean_decay = float(metrics[name].decay.mean()) if name in metrics else 0.0
        basis.damping = damping_of(basis.eigenvalues, penalty_of[name]) + mean_decay
    for block in blocks:
        if block.name in hessians:
            if is_spectral:
                fit = partial(_eigenbasis_of, metric=metrics.get(block.name))
            else:
                fit = _whitening_basis
            bases[block.name] = fit(block, hessians.pop(block.name), dtype, penalty_of[block.name])
    curved_names = {n for n, b in bases.items() if bool((b.eigenvalues + b.damping > 0).any())}
    return {block.name: bases[block.name] for block in blocks if block.name in curved_names}


def _decrement_terms(
    gradients: Mapping[str, Tensor],
    bases: Mapping[str, BlockBasis],
    hessians: Mapping[str, Tensor],
    penalty_of: Mapping[str, Penalty],
) -> Iterator[tuple[Float[Tensor, " q"], Float[Tensor, " q"]]]:
    """Yield each block's damped eigenvalues v and the squares c² of its gradient's coordinates."""
    # Σ c² / v is the Newton decrement; of exact blocks by Lanczos' quadrature.
    for name, basis in bases.items():
        gradient = gradients[name].flatten()[None]
        sides = drop_none(basis.row_basis, basis.column_basis)
        gradient = gradient.to(sides[0]) if sides else gradient
        squares = basis.to_basis(gradient)[0].double().square().cpu()
        values = basis.eigenvalues.flatten().double().cpu()
        yield values + damping_of(values, penalty_of[name]), squares
    for name, hessian in hessians.items():
        values, squares = quadrature(hessian, gradients[name].flatten().to(hessian))
        yield values + damping_of(hessian.diagonal(), penalty_of[name]), squares


def first_sums(blocks: list[Block], gradients: Iterable[Gradients], exact_names: set[str]) -> Sums:
    """Sum over samples, float64: Gram matrices of exact blocks, factor moments of the others."""
    sums: Sums = {}
    # Batches wait until there are many rows a product: it costs size² to add one up in float64.
    waiting: dict[str, list[Use]] = {}
    n_waiting = dict.fromkeys((block.name for block in blocks), 0)
    by_name = {block.name: block for block in blocks}
    for batch in gradients:
        for name, uses in batch.items():
            if name in exact_names:
                gradient = matrix(uses, by_name[name].shape[0])
                waiting_uses: list[Use] = [gradient.flatten(1)[:, None]]
            else:
                waiting_uses = uses
            if _have_new_inputs(waiting_uses, waiting.get(name, [])):
                if n_waiting[name] >= PLACES:
                    _add_products(sums, by_name[name], waiting.pop(name), name in exact_names)
                    n_waiting[name] = 0
                n_waiting[name] += sum(tensors_of(u)[0].shape[:2].numel() for u in waiting_uses)
            waiting.setdefault(name, []).extend(waiting_uses)
    for name, uses in waiting.items():
        _add_products(sums, by_name[name], uses, name in exact_names)
    for (_, kind), total in sums.items():
        if kind == GRAM:
            complete_lower(total)
    return sums


def _have_new_inputs(uses: list[Use], previous_uses: list[Use]) -> bool:
    """Return whether uses are of another batch than the last, not by another of its outputs."""
    pairs = zip(previous_uses[-len(uses) :], uses, strict=False)
    return all(tensors_of(a)[-1] is not tensors_of(b)[-1] for a, b in pairs)


def _add_products(sums: Sums, block: Block, uses: list[Use], is_exact: bool) -> None:
    """Add a batch to `sums`: the exact block's Gram matrix, or its two factors' second moments."""
    if is_exact:
        rows = torch.cat([gradient.flatten(1) for use in uses for gradient in tensors_of(use)])
        if (block.name, GRAM) not in sums:
            sums[block.name, GRAM] = rows.new_zeros(block.size, block.size, dtype=torch.float64)
        add_products(rows, sums[block.name, GRAM], "float32")
        return
    if (block.name, SQUARES) not in sums:  # zeros, which `square_sums` replaces
        tensor = tensors_of(uses[0])[0]
        sums[block.name, SQUARES] = tensor.new_zeros(block.shape, dtype=torch.float64)
    for side, moments in zip(SIDES, second_moments(uses, LARGEST_SIDE), strict=True):
        if moments is not None and len(moments) > 1:  # none of sides of 1
            key = (block.name, side)
            sums[key] = sums[key].add_(moments) if key in sums else moments


def kronecker_bases(
    blocks: list[Block], sums: Sums, dtype: torch.dtype, metrics: Mapping[str, Metric] = NO_METRICS
) -> dict[str, BlockBasis]:
    """Return the inexact blocks' Kronecker eigenbases; their eigenvalues are still 0."""
    results = {}
    for block in blocks:
        if (block.name, SQUARES) in sums:
            moments = [sums.pop((block.name, side), None) for side in SIDES]
            metric = metrics.get(block.name)
            steps = [torch.ones(1)] * 2 if metric is None else metric.factors()
            u_left = _scaled_eigenvectors(moments[0], steps[0], dtype)
            u_right = _scaled_eigenvectors(moments[1], steps[1], dtype)
            basis = BlockBasis(block, None, u_left, u_right, sums[block.name, SQUARES])
            if metric is not None:
                basis.steps, basis.outside_steps = metric.split(
                    u_left is not None, u_right is not None
                )
            results[block.name] = basis
    return results


def _scaled_eigenvectors(side: Tensor | None, steps: Tensor, dtype: torch.dtype) -> Tensor | None:
    """Return √d times the eigenvectors of √d side √d, d its part of D (`steps`); None for None."""
    if side is None:
        return None
    root_steps = steps.flatten().sqrt().to(side)
    _, vectors = torch.linalg.eigh(side * root_steps[:, None] * root_steps)
    return (vectors * root_steps[:, None]).to(dtype)


def square_sums(bases: dict[str, BlockBasis], gradients: Iterable[Gradients]) -> Sums:
    """Return each block's squared gradient coordinates summed over samples, [rows, columns]."""
    sums = {(name, SQUARES): torch.zeros_like(b.eigenvalues) for name, b in bases.items()}
    for batch in gradients:
        for basis in [bases[name] for name in bases if name in batch]:
            squares, rows = basis.sum_squares(batch[basis.block.name])
            key = (basis.block.name, SQUARES)
            if rows is None:
                sums[key] += squares.view(basis.block.shape)
            else:
                sums[key].index_add_(0, rows, squares.view(len(rows), -1))
    return sums


def _eigenbasis_of(
    block: Block,
    hessian: Float[Tensor, "size size"],
    dtype: torch.dtype,
    penalty: Penalty,
    metric: Metric | None,
) -> BlockBasis:
    """Return the eigenbasis of H, or √D times that of √D H √D + Λ; overwrites `hessian`."""
    steps = metric.steps.flatten().to(hessian) if metric is not None else None
    root_steps = torch.ones(1).to(hessian) if steps is None else steps.sqrt()
    hessian.mul_(root_steps[:, None]).mul_(root_steps)
    damping = damping_of(hessian.diagonal(), penalty)
    if metric is not None:
        hessian.diagonal().add_(metric.decay.flatten().to(hessian))
    values, vectors = torch.linalg.eigh(hessian)
    basis = (vectors * root_steps[:, None]).to(dtype)
    # Positive semidefinite; rounding makes the smallest negative.
    return BlockBasis(block, basis, None, None, values.clamp_min(0), damping, steps=steps)


def _whitening_basis(
    block: Block, hessian: Float[Tensor, "size size"], dtype: torch.dtype, penalty: Penalty
) -> BlockBasis:
    """Return the whitening basis L⁻ᵀ, where H + damping = L Lᵀ; overwrites `hessian`."""
    damping = damping_of(hessian.diagonal(), penalty)
    ones = torch.ones_like(hessian.diagonal())
    if not damping and not hessian.any():
        return BlockBasis(block, None, None, None, hessian.new_zeros(block.shape))
    hessian.diagonal().add_(damping)
    if not invert_root(hessian):
        raise SettingError(
            f"damping must make every block's Hessian positive definite; that of {block.name!r} is "
            f"singular at {penalty.share:g} of its mean eigenvalue. Raise damping; 0.1 is the "
            "default."
        )
    return BlockBasis(block, hessian.T.to(dtype), None, None, ones, is_triangular=True)


def gradient_coordinates(
    bases: dict[str, BlockBasis], gradients: Gradients
) -> Iterator[tuple[BlockBasis, Float[Tensor, "b p"], Tensor | None]]:
    """Yield each block's basis, a batch's gradients in it, and the weight rows; None: all."""
    for name, basis in bases.items():
        if name in gradients:
            yield (basis, *basis.coordinates(gradients[name]))
