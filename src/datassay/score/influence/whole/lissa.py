"""Influence by LiSSA: the inverse Hessian as a truncated series of products on random batches."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from datassay.collect.curvature.hessian import hessian_products
from datassay.errors import SettingError
from datassay.score.effects import OutputChanges
from datassay.score.influence.whole.problem import Problem, newton_changes

# Recursions between two checks of the estimate's size.
LOOK_EVERY = 20
# The estimate may exceed what a positive definite Hessian allows by this factor: batches are noisy.
LARGEST_GROWTH = 10.0
# A relative residual above this causes a warning.
NOTABLE_RESIDUAL = 0.1


def lissa(
    problem: Problem,
    *,
    depth: int = 1000,
    scale: float = 1000.0,
    batch_size: int | None = 128,
    repeats: int = 1,
) -> Iterator[OutputChanges]:
    """The recursion v ← ∇ℓ_i + v − (H_batch v + penalty v) / scale, from v = ∇ℓ_i; u = v / scale.

    Args:
        problem: the network, samples and queries.
        depth: recursions. Curvature below scale / depth is not inverted yet.
        scale: must exceed half of the largest eigenvalue of any batch's Hessian plus penalty.
        batch_size: samples per product, drawn without replacement; None takes all of them.
        repeats: independent estimates to average.

    Yields:
        Chunks in sample order.

    Raises:
        SettingError: a setting is not positive, or the recursion diverges.

    Cost: per sample depth · repeats Hessian products on a batch and one on all samples; five weight
    vectors for each sample of a chunk. All samples share each batch: the estimate of each has the
    distribution that batches of its own would give, and the weights' passes are done once.
    Source: Agarwal, Bullins and Hazan (2017); Koh and Liang (2017) §3; S1 Table 2 has depth and
    scale 1000, its code batches of 128. Deviates: damping is added to H; both codes write
    v ← ∇ℓ + (1 − damping) v − H v / scale, so their damping times scale is ours (S1: 0.01 · 1000).
    """
    _check(depth=depth, scale=scale, repeats=repeats)
    if batch_size is not None:
        _check(batch_size=batch_size)
    residuals: list[Tensor] = []

    def solve(gradients: Float[Tensor, "s d"]) -> Float[Tensor, "s d"]:
        # Every chunk sees the same batches: results do not depend on how samples are chunked.
        draw = torch.Generator().manual_seed(problem.seed)
        total = torch.zeros_like(gradients)
        for _ in range(repeats):
            total += _recursion(problem, gradients, depth, scale, batch_size, draw)
        solution = total / (repeats * scale)
        residuals.append(_residual(problem, gradients, solution))
        return solution

    yield from newton_changes(problem, solve)
    worst = float(torch.cat(residuals).max())
    if worst > NOTABLE_RESIDUAL:
        problem.warnings.append(
            f"LiSSA left a relative residual of up to {worst:.2g}: at depth {depth} and scale "
            f"{scale:g} curvature below {scale / depth:.2g} is not inverted. Raise depth or "
            "repeats, lower scale, or use method='cg'."
        )


def _check(**settings: float) -> None:
    for name, value in settings.items():
        if not value > 0:
            raise SettingError(f"{name} must be positive; got {value}.")


def _recursion(
    problem: Problem,
    gradients: Float[Tensor, "s d"],
    depth: int,
    scale: float,
    batch_size: int | None,
    draw: torch.Generator,
) -> Float[Tensor, "s d"]:
    keep = 1 - problem.penalty / scale
    estimate = gradients.clone()
    for done in range(1, depth + 1):
        batch = _batch(len(problem.mean_loss), batch_size, draw)
        product = hessian_products(problem.mean_loss, estimate, batch)
        estimate = estimate.mul_(keep).add_(gradients).sub_(product, alpha=1 / scale)
        if done % LOOK_EVERY == 0 or done == depth:
            # If no step lengthens a vector, a sum of done + 1 terms is at most this long.
            bound = (done + 1) * gradients.norm(dim=1)
            if not (estimate.norm(dim=1) <= LARGEST_GROWTH * bound).all():
                raise SettingError(
                    f"LiSSA must contract; the estimate diverged within {done} recursions at scale "
                    f"{scale:g}. Raise scale above half of the largest curvature of any batch; "
                    "where the Hessian has negative eigenvalues, raise damping."
                )
    return estimate


def _batch(n: int, batch_size: int | None, draw: torch.Generator) -> Int[Tensor, " b"] | None:
    if batch_size is None or batch_size >= n:
        return None
    return torch.randperm(n, generator=draw)[:batch_size]


def _residual(problem: Problem, gradients: Tensor, solution: Tensor) -> Float[Tensor, " s"]:
    """‖(H + penalty I) u − ∇ℓ‖ / ‖∇ℓ‖ with the Hessian of all samples."""
    left = hessian_products(problem.mean_loss, solution) + problem.penalty * solution - gradients
    size = gradients.norm(dim=1)
    return left.norm(dim=1) / size.clamp_min(torch.finfo(size.dtype).tiny)
