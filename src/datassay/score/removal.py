"""What removing one sample does to the trained weights, for every sample, in coordinates.

W_i, the change w − w₋ᵢ in the eigenbasis' coordinates, is Σ_a rows[i,a] T[i,a] with
T = Σ_q Re[weight_q v_q / (ℓ + shift_q)] and v_q = (I − H_ii)⁻¹ (r_i − Z_i R_q b): METHODS §2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from datassay.score.dynamics import (
    FEWEST_CONTOUR_STEPS,
    Dynamics,
    Resolvents,
    filter_values,
    resolvents,
)
from datassay.score.eigenbasis import Eigenbasis

# A leverage within this of 1 means that no other sample spans that direction.
SPANNED_ALONE = 1e-8


@dataclass(frozen=True, slots=True, eq=False)
class Removals:
    """The removals of one chunk of samples.

    Attributes:
        start: position of the chunk's first sample.
        coordinates: W, [p, chunk, c], of w − w₋ᵢ.
    """

    start: int
    coordinates: Float[Tensor, "p chunk c"]


def removals(
    basis: Eigenbasis,
    residual: Float[Tensor, "n b c"],
    run: Dynamics,
    run_without: Dynamics,
    chunk: int,
) -> Iterator[Removals]:
    """Coordinates of w − w₋ᵢ for every sample, a chunk at a time.

    Args:
        basis: the eigenbasis of all n samples.
        residual: Y − f₀.
        run: the training run on all samples.
        run_without: the run on n − 1 samples; it differs in step size under a mean loss.
        chunk: samples at a time.

    Yields:
        The chunks, in sample order.

    Cost: 4 q p n b c operations for q shifts (8 p n² c a step for fewer than 12 descent steps).
    Source: METHODS §2, beyond S1, which downdates a decomposition a sample. Error of the contour:
    see `resolvents`.
    """
    projected = basis.project(residual)  # [p, c]
    trained = filter_values(basis.eigenvalues, run)[:, None] * projected
    if run.kind == "descent" and run.steps < FEWEST_CONTOUR_STEPS:
        for start in range(0, len(residual), chunk):
            without = _iterate(basis, residual, run_without, start, chunk)
            yield Removals(start, trained[:, None] - without)
        return
    pinned = run.kind == "converged" and run.penalty == 0
    if pinned:
        terms, v = _at_zero(basis, residual)
    else:
        terms = resolvents(run_without, basis.largest)
        v = held_out_residuals(basis, residual, terms.shifts)
    same_data = filter_values(basis.eigenvalues, run_without)[:, None] * projected
    for start in range(0, len(residual), chunk):
        part = slice(start, start + chunk)
        coordinates = _coordinates(basis.rows[part], basis.eigenvalues, terms, v[:, part])
        yield Removals(start, coordinates + (trained - same_data)[:, None])


def _coordinates(
    rows: Float[Tensor, "chunk b p"],
    eigenvalues: Float[Tensor, " p"],
    terms: Resolvents,
    v: Complex[Tensor, "q chunk b c"],
) -> Float[Tensor, "p chunk c"]:
    """Σ_a rows[i, a] Σ_q Re[weight_q v_q / (ℓ + shift_q)], the sum over q before the product."""
    poles = terms.shifts + eigenvalues[:, None]  # [p, q]
    # λ = 0 and ℓ = 0 only meet in the converged form, whose null modes do not move.
    kernel = torch.where(poles == 0, 0.0, terms.weights / torch.where(poles == 0, 1.0, poles))
    flat = v.flatten(1)  # [q, chunk b c]
    mixed = torch.cat([kernel.real, -kernel.imag], 1) @ torch.cat([flat.real, flat.imag])
    mixed = mixed.reshape(len(eigenvalues), *v.shape[1:])  # [p, chunk, b, c]
    if v.shape[2] == 1:
        return rows[:, 0].T[:, :, None] * mixed[:, :, 0]
    return torch.einsum("iap,piac->pic", rows, mixed)


def held_out_residuals(
    basis: Eigenbasis, residual: Float[Tensor, "n b c"], shifts: Complex[Tensor, " q"]
) -> Complex[Tensor, "q n b c"]:
    """Residual of each sample under the ridge fit that never saw it, at every penalty.

    v_q = (I − H_ii)⁻¹ (r_i − Z_i R_q b), R_q = (C + s_q)⁻¹, H_ii = Z_i R_q Z_iᵀ

    Args:
        basis: the eigenbasis.
        residual: Y − f₀.
        shifts: not 0, real part positive or imaginary part not 0.

    Returns:
        v, in the residual's unit.

    Cost: 2 q n b p (b + c) operations, four times that for complex shifts.
    Source: METHODS §2; Allen's PRESS (1974) for real shifts. Exact.
    """
    poles = shifts[:, None] + basis.eigenvalues  # [q, p]
    if basis.complete:  # I − Q (ℓ/(ℓ+s)) Qᵀ = Q (s/(ℓ+s)) Qᵀ, without cancellation
        remain, base = shifts[:, None] / poles, 0.0
    else:
        remain, base = -basis.metric / poles, 1.0
    remaining = remain[:, :, None] * basis.project(residual)  # [q, p, c]
    right = _real_times_complex(basis.rows, remaining) + base * residual
    left = weighted_blocks(basis.rows, remain) + base * torch.eye(residual.shape[1])
    return right / left if residual.shape[1] == 1 else torch.linalg.solve(left, right)


def _real_times_complex(
    rows: Float[Tensor, "n b p"], columns: Complex[Tensor, "q p c"]
) -> Complex[Tensor, "q n b c"]:
    q, _, c = columns.shape
    wide = torch.cat([columns.real, columns.imag]).permute(1, 0, 2).flatten(1)  # [p, 2 q c]
    product = (rows @ wide).unflatten(2, (2, q, c))
    return torch.complex(product[:, :, 0], product[:, :, 1]).permute(2, 0, 1, 3)


def weighted_blocks(
    rows: Float[Tensor, "n b p"], weights: Complex[Tensor, "q p"] | Float[Tensor, "q p"]
) -> Tensor:
    """rows_i diag(weights_q) rows_iᵀ for every sample and weight vector.

    Args:
        rows: of the eigenbasis.
        weights: one diagonal a resolvent, real or complex.

    Returns:
        [q, n, b, b], real or complex as the weights.

    Cost: 2 q n b² p operations (twice for complex weights); n b p values a weight when b > 1.
    """
    if rows.shape[1] == 1:
        squares = rows[:, 0].square()  # [n, p]
        if weights.is_complex():
            both = squares @ torch.cat([weights.real, weights.imag]).T  # [n, 2q]
            found = torch.complex(*both.T.chunk(2))
        else:
            found = (squares @ weights.T).T
        return found.reshape(*found.shape, 1, 1)
    if weights.is_complex():
        parts = [weighted_blocks(rows, w) for w in (weights.real, weights.imag)]
        return torch.complex(*parts)
    return torch.stack([(rows * w) @ rows.mT for w in weights])


def _at_zero(
    basis: Eigenbasis, residual: Float[Tensor, "n b c"]
) -> tuple[Resolvents, Complex[Tensor, "q n b c"]]:
    """The converged minimum-norm fit, λ = 0: exact also where Θ is singular.

    With C⁺ the pseudo-inverse and H_ii = Z_i C⁺ Z_iᵀ = U h Uᵀ, directions with h < 1 are taken out
    by the leverage formula and directions with h = 1, which the sample alone spans, by projecting
    the weights (METHODS §2).

    Returns:
        One resolvent at 0, and v.
    """
    ell = basis.eigenvalues
    inverse = torch.where(ell > 0, 1 / torch.where(ell > 0, ell, 1.0), 0.0)
    blocks = weighted_blocks(
        basis.rows, torch.stack([basis.metric * inverse, basis.metric * inverse**2])
    )
    hat, gramian = blocks[0], blocks[1]  # H_ii and Z_i C⁺ C⁺ Z_iᵀ, [n, b, b]
    h, directions = torch.linalg.eigh(hat)
    alone = h > 1 - SPANNED_ALONE
    projected = basis.project(residual)
    scaled = basis.metric[:, None] * projected
    fitted = inverse[:, None] * scaled  # Z C⁺ b, per mode
    if basis.complete:
        unfitted = basis.rows @ torch.where(ell > 0, 0.0, 1.0)[:, None].mul(projected)
    else:
        unfitted = residual - basis.rows @ fitted
    shrink = torch.where(alone, 0.0, 1 / torch.where(alone, 1.0, 1 - h))
    v = directions @ (shrink[..., None] * (directions.mT @ unfitted))  # [n, b, c]
    only = directions @ (alone[..., None] * directions.mT)  # projector on h = 1
    target = only @ (basis.rows @ (inverse[:, None] ** 2 * scaled) - gramian @ v)
    v = v + torch.linalg.pinv(only @ gramian @ only, hermitian=True, rtol=1e-10) @ target
    zero = torch.zeros(1, dtype=torch.complex128)
    return Resolvents(zero, torch.ones_like(zero)), v[None].to(torch.complex128)


def _iterate(
    basis: Eigenbasis, residual: Float[Tensor, "n b c"], run: Dynamics, start: int, chunk: int
) -> Float[Tensor, "p chunk c"]:
    """Descent step by step, each column of a chunk without its own sample."""
    rows = basis.rows.flatten(0, 1)  # [n b, p]
    n, b, c = residual.shape
    size = min(chunk, n - start)
    keep = torch.ones(n, b, size, 1, dtype=torch.float64)
    keep[start + torch.arange(size), :, torch.arange(size)] = 0
    keep = keep.reshape(n * b, size, 1)
    coordinates = torch.zeros(rows.shape[1], size, c, dtype=torch.float64)
    target = residual.reshape(n * b, 1, c)
    for _ in range(run.steps):
        moved = (rows * basis.metric) @ coordinates.flatten(1)  # [n b, size c]
        left = keep * (target - moved.reshape(n * b, size, c))
        ascent = (rows.T @ left.flatten(1)).reshape(coordinates.shape)
        coordinates = coordinates + run.step * (ascent - run.penalty * coordinates)
    return coordinates
