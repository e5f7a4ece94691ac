"""Influence by conjugate gradients: only Hessian-vector products, the Hessian is never stored."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from datassay.collect.curvature.hessian import hessian_products
from datassay.errors import SettingError
from datassay.score.effects import OutputChanges
from datassay.score.influence.whole.problem import Problem, newton_changes


def conjugate_gradients(
    problem: Problem, *, tolerance: float = 1e-6, iterations: int = 500
) -> Iterator[OutputChanges]:
    """Solve (H + penalty I) u = ∇ℓ_i for many samples at once, each up to its tolerance.

    Args:
        problem: the network, samples and queries.
        tolerance: for the residual's norm divided by the gradient's.
        iterations: at most; a warning counts samples that need more and names the residual reached.

    Yields:
        Chunks in sample order.

    Raises:
        SettingError: a setting is not positive, or a direction has negative curvature.

    Cost: one Hessian product per sample and iteration (about √(λ_max / penalty) iterations); five
    weight vectors for each sample of a chunk.
    Source: Koh and Liang (2017) §3, after Martens (2010). Deviates: every product takes the exact
    Hessian of all samples.
    """
    if not tolerance > 0:
        raise SettingError(f"tolerance must be positive; got {tolerance}.")
    if iterations < 1:
        raise SettingError(f"iterations must be at least 1; got {iterations}.")
    residuals: list[Tensor] = []

    def solve(gradients: Float[Tensor, "s d"]) -> Float[Tensor, "s d"]:
        solution, left = _solve(problem, gradients, tolerance, iterations)
        residuals.append(left)
        return solution

    yield from newton_changes(problem, solve)
    left = torch.cat(residuals)
    if (left > tolerance).any():
        problem.warnings.append(
            f"conjugate gradients did not converge for {int((left > tolerance).sum())} of "
            f"{len(left)} samples: after {iterations} iterations the relative residual is up to "
            f"{float(left.max()):.1e}, not {tolerance:g}. Raise iterations or damping."
        )


def _solve(
    problem: Problem, gradients: Float[Tensor, "s d"], tolerance: float, iterations: int
) -> tuple[Float[Tensor, "s d"], Float[Tensor, " s"]]:
    """Solutions, and the relative residuals reached; converged rows leave the products."""
    solution, residual, direction = (
        torch.zeros_like(gradients),
        gradients.clone(),
        gradients.clone(),
    )
    size = gradients.square().sum(1)
    left = size.clone()
    for _ in range(iterations):
        rows = (left > tolerance**2 * size).nonzero()[:, 0]
        if not len(rows):
            break
        along = direction[rows]
        product = hessian_products(problem.mean_loss, along) + problem.penalty * along
        curvature = (along * product).sum(1)
        if not (curvature > 0).all():
            raise SettingError(_negative(along, curvature, problem))
        step = (left[rows] / curvature)[:, None]
        solution[rows] += step * along
        residual[rows] -= step * product
        now = residual[rows].square().sum(1)
        direction[rows] = residual[rows] + (now / left[rows])[:, None] * along
        left[rows] = now
    return solution, (left / size.clamp_min(torch.finfo(size.dtype).tiny)).sqrt()


def _negative(along: Tensor, curvature: Tensor, problem: Problem) -> str:
    worst = float((curvature / along.square().sum(1)).min())
    return (
        f"the Hessian with damping must be positive definite; its curvature is {worst:.3g} along "
        f"one direction at damping + weight_decay = {problem.penalty:g}. Raise damping above "
        f"{problem.penalty - worst:.3g} (other directions may need more), or train until the loss "
        "is at a minimum."
    )
