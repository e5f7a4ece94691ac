"""Change of the trained weights by removing one sample or one group, in coordinates.

A sample is b rows of the basis, a group of s samples s b rows: one formula serves both.
W_i, the change w − w₋ᵢ in the eigenbasis' coordinates, is Σ_a rows[i,a] T[i,a] with
T = Σ_q Re[weight_q v_q / (ℓ + shift_q)] and v_q = (I − H_ii)⁻¹ (r_i − Z_i R_q b): METHODS §2.
Z_i are the sample's rows, C = ZᵀZ, R_q = (C + shift_q)⁻¹, H_ii = Z_i R_q Z_iᵀ, r = Y − f₀, b = Zᵀr.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from datassay.results import result
from datassay.score.linear.eigenbasis import Eigenbasis, FeatureRows
from datassay.score.linear.panels import (
    SYMMETRIC_ROWS,
    Products,
    doubled_upper,
    operand,
    product,
    solve_each,
)
from datassay.score.linear.training_run import (
    FEWEST_CONTOUR_STEPS,
    Dynamics,
    Resolvents,
    filter_values,
    iterate,
    resolvents,
)

# A leverage within this of 1 means that no other sample spans that direction.
SPANNED_ALONE = 1e-8


@result
class RemovalBlocks:
    """Blocks to remove: each sample, or each of some groups of equal size.

    Attributes:
        rows: [g, b, p], the b rows of the basis that block i takes out.
        residual: [g, b, c], Y − f₀ of these rows.
        projected: [p, c], rowsᵀ (Y − f₀) over ALL samples, not only these.
        shared: where many blocks share few rows: those rows, [u, p], and the position of each
            block's rows among them, [g, b]. Their products are then computed once. Else None.
    """

    rows: Float[Tensor, "g b p"]
    residual: Float[Tensor, "g b c"]
    projected: Float[Tensor, "p c"]
    shared: tuple[Tensor, Tensor] | None = None

    def weigh_products(self, weights: Complex[Tensor, "q p"] | Float[Tensor, "q p"]) -> Tensor:
        """Return rows_i diag(weights_q) rows_iᵀ of every block, [q, g, b, b]."""
        if self.shared is None:
            return weighted_blocks(self.rows, weights)
        rows, positions = self.shared
        products = weighted_blocks(rows[None], weights)[:, 0]  # [q, u, u]
        return products[:, positions[:, :, None], positions[:, None, :]]


@result
class Penalised:
    """The fits under each penalty, to all samples: I − H = base I + Z diag(remain_q) Zᵀ.

    Attributes:
        shifts: s_q, the penalties.
        remain: [q, p]: of a whole basis (base 0) the share of each mode that a fit leaves,
            s/(ℓ+s); else −metric/(ℓ+s).
        base: 0 or 1.
        columns: remain times Zᵀ (Y − f₀), of complex shifts real and imaginary part: [p, q c].
    """

    shifts: Complex[Tensor, " q"] | Float[Tensor, " q"]
    remain: Complex[Tensor, "q p"] | Float[Tensor, "q p"]
    base: float
    columns: Float[Tensor, "p columns"]


@result
class Removals:
    """The removals of one chunk of samples.

    Attributes:
        start: position of the chunk's first sample.
        rows: of the chunk's samples in the basis.
        coordinates: W, [p, chunk, c], of w − w₋ᵢ.
    """

    start: int
    rows: Float[Tensor, "chunk b p"]
    coordinates: Float[Tensor, "p chunk c"]


def removals(
    basis: Eigenbasis,
    residual: Float[Tensor, "n b c"],
    run: Dynamics,
    run_without: Dynamics,
    chunk: int,
) -> Iterator[Removals]:
    """Yield coordinates of w − w₋ᵢ for every sample, a chunk at a time.

    Args:
        basis: the eigenbasis of all n samples.
        residual: Y − f₀.
        run: the training run on all samples.
        run_without: the run on n − 1 samples; η and λ differ under a mean loss.
        chunk: samples at a time.

    Yields:
        The chunks, in sample order.

    Cost: 4 q p n b c operations for q shifts, one pass over the rows (8 p n² c per step and all
    rows at once below 12 descent steps).
    Source: METHODS §2, beyond S1, which downdates a decomposition per sample. Error of the contour:
    see `resolvents`.
    """
    projected = basis.project(residual)
    trained = filter_values(basis.eigenvalues, run)[:, None] * projected
    if takes_few_steps(run):
        for start in range(0, len(residual), chunk):
            rows = basis.rows[start : start + chunk]
            idx = torch.arange(start, start + len(rows))
            coordinates_without = iterate(basis, residual, run_without, idx[:, None])
            yield Removals(start, rows, trained[:, None] - coordinates_without)
        return
    # A mean loss trains the others with its own η and λ: the change by these comes first.
    trained_by_other_run = filter_values(basis.eigenvalues, run_without)[:, None] * projected
    fits = penalised_fits(basis, projected, run_without)
    for start in range(0, len(residual), chunk):
        samples = slice(start, start + chunk)
        rows = basis.rows[samples]
        blocks = RemovalBlocks(rows, residual[samples], projected)
        terms, v = deletion(basis, blocks, run_without, fits)
        coordinates = sum_resolvents(rows, basis.eigenvalues, terms, v)
        if run_without != run:
            coordinates += (trained - trained_by_other_run)[:, None]
        yield Removals(start, rows, coordinates)


def takes_few_steps(run: Dynamics) -> bool:
    """Return whether the run is too short for the contour, so that it is iterated."""
    return run.kind == "descent" and run.steps < FEWEST_CONTOUR_STEPS


def penalised_fits(
    basis: Eigenbasis, projected: Float[Tensor, "p c"], run: Dynamics
) -> Penalised | None:
    """Return the fits under a run's penalties, for `deletion`; None for minimum norm."""
    if run.kind == "converged" and run.penalty == 0:
        return None
    return _fit_penalties(basis, projected, run_resolvents(basis, run).shifts)


def deletion(
    basis: Eigenbasis, blocks: RemovalBlocks, run: Dynamics, fits: Penalised | None = None
) -> tuple[Resolvents, Complex[Tensor, "q g b c"]]:
    """Return the run's resolvents, and each block's residual under the fits without it."""
    terms = run_resolvents(basis, run)
    if run.kind == "converged" and run.penalty == 0:
        return terms, _residuals_at_minimum_norm(basis, blocks)
    return terms, held_out_residuals(basis, blocks, terms.shifts, fits)


def run_resolvents(basis: Eigenbasis, run: Dynamics) -> Resolvents:
    """Return a run's resolvents; a single one at 0 for the minimum-norm fit."""
    if run.kind == "converged" and run.penalty == 0:
        zero = torch.zeros(1, dtype=torch.complex128)
        return Resolvents(zero, torch.ones_like(zero))
    return resolvents(run, basis.largest)


def sum_resolvents(
    rows: Float[Tensor, "chunk b p"],
    eigenvalues: Float[Tensor, " p"],
    terms: Resolvents,
    v: Complex[Tensor, "q chunk b c"],
) -> Float[Tensor, "p chunk c"]:
    """Return weights W_i [p, chunk, c], summed over the resolvents of residuals v."""
    kernel = resolvent_values(eigenvalues, terms)
    flat = torch.cat([v.real, v.imag]).flatten(1)  # [2 q, chunk b c]
    if v.shape[2] == 1:  # in memory sample by sample, as the products that follow read it
        filtered = (flat.T @ kernel.T).reshape(v.shape[1], v.shape[3], -1)  # [chunk, c, p]
        return filtered.mul_(rows).permute(2, 0, 1)
    filtered = (kernel @ flat).reshape(len(eigenvalues), *v.shape[1:])  # [p, chunk, b, c]
    return torch.einsum("iap,piac->pic", rows, filtered)


def resolvent_values(eigenvalues: Float[Tensor, " p"], terms: Resolvents) -> Float[Tensor, "p q2"]:
    """Return real K with Σ_q Re[weight_q v_q / (ℓ + shift_q)] = K (Re v; Im v), [p, 2 q]."""
    poles = terms.shifts + eigenvalues[:, None]  # ℓ + shift_q, [p, q]
    # Both are 0 only in the minimum-norm fit, which leaves weights of eigenvalue 0 unchanged.
    kernel = torch.where(poles == 0, 0.0, terms.weights / torch.where(poles == 0, 1.0, poles))
    return torch.cat([kernel.real, -kernel.imag], 1)


def held_out_residuals(
    basis: Eigenbasis,
    blocks: RemovalBlocks,
    shifts: Complex[Tensor, " q"] | Float[Tensor, " q"],
    fits: Penalised | None = None,
) -> Complex[Tensor, "q g b c"] | Float[Tensor, "q g b c"]:
    """Return each block's residual under the ridge fit without it, at every penalty."""
    # Source: METHODS §2; Allen's PRESS (1974) for real shifts. Exact.
    if fits is None:
        fits = _fit_penalties(basis, blocks.projected, shifts)
    residual = _multiply_columns(blocks.rows, fits) + fits.base * blocks.residual  # of the fit
    size = blocks.residual.shape[1]
    poles = shifts[:, None] + basis.eigenvalues
    if size > poles.shape[1] and not basis.complete and not shifts.is_complex():
        # The smaller system, of features (metric 1): v = r + Z (C + s − ZᵀZ)⁻¹ Zᵀ r (Woodbury).
        system = torch.diag_embed(poles)[:, None] - blocks.rows.mT @ blocks.rows
        return residual + blocks.rows @ solve_each(system, blocks.rows.mT @ residual)
    complement = blocks.weigh_products(fits.remain) + fits.base * torch.eye(size)  # I − H_ii
    if size == 1:
        return residual / complement
    return solve_each(complement, residual)


def _fit_penalties(basis: Eigenbasis, projected: Tensor, shifts: Tensor) -> Penalised:
    """Return the ridge fits to all samples under each penalty; projected: Zᵀ (Y − f₀)."""
    poles = shifts[:, None] + basis.eigenvalues  # [q, p]
    if basis.complete:  # I − Q (ℓ/(ℓ+s)) Qᵀ = Q (s/(ℓ+s)) Qᵀ, without cancellation
        remain = shifts[:, None] / poles
        base = 0.0
    else:
        remain = -basis.metric / poles
        base = 1.0
    remaining = remain[:, :, None] * projected  # [q, p, c]
    parts = [remaining.real, remaining.imag] if remaining.is_complex() else [remaining]
    return Penalised(shifts, remain, base, torch.cat(parts).permute(1, 0, 2).flatten(1))


def _multiply_columns(
    rows: Float[Tensor, "n b p"], fits: Penalised
) -> Complex[Tensor, "q n b c"] | Float[Tensor, "q n b c"]:
    """Return rows diag(remain_q) Zᵀ (Y − f₀), the remaining residual at each penalty."""
    n_parts = 2 if fits.shifts.is_complex() else 1  # real, imaginary
    shape = (n_parts, len(fits.shifts), -1)
    parts = (rows @ fits.columns).unflatten(2, shape).permute(2, 3, 0, 1, 4)
    if n_parts == 2:
        return torch.complex(parts[0], parts[1])
    return parts[0]


def weighted_blocks(
    rows: Float[Tensor, "n b p"], weights: Complex[Tensor, "q p"] | Float[Tensor, "q p"]
) -> Tensor:
    """Return rows_i diag(weights_q) rows_iᵀ for every sample i and weights q, [q, n, b, b]."""
    if rows.shape[1] == 1:
        squares = rows[:, 0].square()  # [n, p]
        if weights.is_complex():
            real_and_imaginary = squares @ torch.cat([weights.real, weights.imag]).T  # [n, 2q]
            products = torch.complex(*real_and_imaginary.T.chunk(2))
        else:
            products = (squares @ weights.T).T
        return products.reshape(*products.shape, 1, 1)
    if weights.is_complex():
        parts = [weighted_blocks(rows, w) for w in (weights.real, weights.imag)]
        return torch.complex(*parts)
    return torch.stack([(rows * w) @ rows.mT for w in weights])


def _residuals_at_minimum_norm(
    basis: Eigenbasis, blocks: RemovalBlocks
) -> Complex[Tensor, "1 g b c"]:
    """Return each block's residual under the minimum-norm fit (λ = 0) without it."""
    # With C⁺ the pseudo-inverse and H_ii = Z_i C⁺ Z_iᵀ = U h Uᵀ, directions with h < 1 are taken
    # out by the leverage formula and directions with h = 1, which the sample alone spans, by
    # projecting the weights (METHODS §2).
    ell = basis.eigenvalues
    inverse = torch.where(ell > 0, 1 / torch.where(ell > 0, ell, 1.0), 0.0)
    rows = blocks.rows
    hat, gramian = blocks.weigh_products(
        torch.stack([basis.metric * inverse, basis.metric * inverse**2])
    )  # H_ii and Z_i C⁺ C⁺ Z_iᵀ, [g, b, b]
    h, directions = torch.linalg.eigh(hat)
    is_alone = h > 1 - SPANNED_ALONE
    scaled = basis.metric[:, None] * blocks.projected
    if basis.complete:
        in_null_modes = torch.where(ell > 0, 0.0, 1.0)[:, None].mul(blocks.projected)
        unfitted = rows @ in_null_modes
    else:
        unfitted = blocks.residual - rows @ (inverse[:, None] * scaled)  # r_i − Z_i C⁺ b
    leverage_factor = torch.where(is_alone, 0.0, 1 / torch.where(is_alone, 1.0, 1 - h))
    v = directions @ (leverage_factor[..., None] * (directions.mT @ unfitted))  # [g, b, c]
    projector = directions @ (is_alone[..., None] * directions.mT)  # projector on h = 1
    target = projector @ (rows @ (inverse[:, None] ** 2 * scaled) - gramian @ v)
    v = v + torch.linalg.pinv(projector @ gramian @ projector, hermitian=True, rtol=1e-10) @ target
    return v[None].to(torch.complex128)


# Removals from a few columns per block of modes instead of one per output: W_i = z_i ⊙ (K α_i). K,
# [p, 2q], holds the filter's resolvents at every eigenvalue; α_i, [2q, c], the sample's residual
# under them. At neighbouring eigenvalues the resolvents are alike: a block of K's rows has a
# numerical rank r of two to four where c is ten, and wᵀGw needs r products with G in place of c.
# Singular values of a block below this share of its largest are left out.
RANK_CUT = 1e-12


def has_modes(basis: Eigenbasis, n_columns: int) -> bool:
    """Return whether removals are cheaper by blocks of modes: one row each, many queries."""
    if not isinstance(basis.rows, FeatureRows) or basis.rows.shape[1] > 1 or n_columns == 1:
        return False
    return basis.val is None or len(basis.val) > basis.rows.shape[2]


class _ModeBlock(NamedTuple):
    """Neighbouring rows of the kernel K as a product of two factors."""

    modes: slice
    mode_factor: Float[Tensor, "block r"]
    pole_factor: Float[Tensor, "r q2"]


class ModeRemovals:
    """Changes by removing each sample of a panel, never as one weight vector per output."""

    def __init__(self, basis: Eigenbasis, terms: Resolvents):
        """Compute factors of the run's resolvents by blocks of modes, once for all panels."""
        self._products: Products = basis.products
        self._device = basis.device
        kernel = resolvent_values(basis.eigenvalues, terms)  # [p, 2q]
        self._blocks = [_factor_block(kernel, s) for s in range(0, len(kernel), SYMMETRIC_ROWS)]
        self._diagonal = basis.eigenvalues
        self._matrix = None
        if isinstance(basis.val, FeatureRows):
            matrix = doubled_upper(basis.val.gram(basis.engine))
            self._matrix = operand(matrix, self._products, self._device)

    def __call__(
        self, rows: Float[Tensor, "g p"], v: Complex[Tensor, "q g 1 c"]
    ) -> tuple[Float[Tensor, "g c"], Float[Tensor, " g"], Float[Tensor, " g"]]:
        """Return by removal: own outputs' change, squared weight and prediction change."""
        alpha = torch.cat([v.real, v.imag])[:, :, 0].permute(1, 0, 2)  # [g, 2q, c]
        c = alpha.shape[2]
        own_outputs = rows.new_zeros(len(rows), c)
        squared_weights = rows.new_zeros(len(rows))
        squared_predictions = rows.new_zeros(len(rows))
        columns = []  # Y of each block of modes: its part of W_i is Y_iᵀ mix_i
        mixes = []
        for modes, mode_factor, pole_factor in self._blocks:
            if mode_factor.shape[1] < c:
                y = rows[:, None, modes] * mode_factor.T  # [g, r, block]
                mix = pole_factor @ alpha  # [g, r, c]
            else:
                y = rows[:, None, modes] * (alpha.mT @ (mode_factor @ pole_factor).T)
                mix = torch.eye(c, dtype=rows.dtype).expand(len(rows), c, c)
            own_outputs += ((y @ rows[:, modes, None]).mT @ mix)[:, 0]
            squared_weights += _trace_products(y @ y.mT, mix, mix)
            if self._matrix is None:
                weighted = y * self._diagonal[modes]
                squared_predictions += _trace_products(weighted @ y.mT, mix, mix)
            columns.append(operand(y, self._products, self._device))
            mixes.append(mix.to(self._device))
        if self._matrix is not None:
            squared_predictions = self._quadratic_form(self._matrix, columns, mixes).cpu()
        return own_outputs, squared_weights, squared_predictions

    def _quadratic_form(
        self, matrix: Tensor, columns: list[Tensor], mixes: list[Tensor]
    ) -> Float[Tensor, " g"]:
        """Return WᵀGW of each removal, summed block by block over G's upper half."""
        total = mixes[0].new_zeros(len(mixes[0]))
        for i, block in enumerate(self._blocks):
            offset = block.modes.start
            y = columns[i]
            products = product(y.flatten(0, 1), matrix[block.modes, offset:], self._products)
            products = products.reshape(*y.shape[:2], -1)
            for j in range(i, len(self._blocks)):
                start = self._blocks[j].modes.start - offset
                y_g = products[:, :, start : start + columns[j].shape[2]]
                matrices = (y_g @ columns[j].mT).double()  # Y_i G_ij Y_jᵀ
                total += _trace_products(matrices, mixes[i], mixes[j])
        return total.clamp_min(0)


def _factor_block(kernel: Float[Tensor, "p q2"], start: int) -> _ModeBlock:
    """Return a low-rank factorisation of SYMMETRIC_ROWS rows of the kernel from `start`."""
    modes = slice(start, min(start + SYMMETRIC_ROWS, len(kernel)))
    u, s, vt = torch.linalg.svd(kernel[modes], full_matrices=False)
    r = max(1, int((s > RANK_CUT * s[0]).sum()))
    return _ModeBlock(modes, u[:, :r] * s[:r], vt[:r])


def _trace_products(
    matrices: Float[Tensor, "g r t"], a: Float[Tensor, "g r c"], b: Float[Tensor, "g t c"]
) -> Float[Tensor, " g"]:
    """Return tr(aᵀ matrix b) of each sample."""
    return (a * (matrices @ b)).sum((1, 2))
