"""Influence with the whole Hessian, factored once: for small models, and as the oracle."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from datassay.collect.curvature.hessian import hessian
from datassay.errors import SettingError
from datassay.score.effects import OutputChanges
from datassay.score.influence.whole.problem import Problem, newton_changes


def exact(problem: Problem) -> Iterator[OutputChanges]:
    """Solve with the Cholesky factor of H + penalty I.

    Args:
        problem: the network, samples and queries.

    Yields:
        Chunks in sample order.

    Raises:
        SettingError: the network has too many weights, or H + penalty I is not positive definite.

    Cost: 2 d passes over the samples, d³/3 operations, 2 d² a sample; 2 d² values.
    Source: Koh and Liang (2017), eq. 1. Deviates nowhere.
    """
    d = problem.mean_loss.n_parameters
    whole = hessian(problem.mean_loss, lambda done: problem.progress("Hessian", done, d))
    whole.diagonal().add_(problem.penalty)
    factor, failed = torch.linalg.cholesky_ex(whole)
    pivots = factor.diagonal().square()
    rounding = d * torch.finfo(getattr(torch, problem.precision)).eps * whole.diagonal().max()
    if failed or pivots.min() <= rounding:
        raise SettingError(_indefinite(whole, problem.penalty))

    def solve(gradients: Float[Tensor, "s d"]) -> Float[Tensor, "s d"]:
        return torch.cholesky_solve(gradients.double().T, factor).T.to(gradients)

    yield from newton_changes(problem, solve)


def _indefinite(whole: Float[Tensor, "d d"], penalty: float) -> str:
    smallest = float(torch.linalg.eigvalsh(whole)[0])
    return (
        "the Hessian with damping must be positive definite; its smallest eigenvalue is "
        f"{smallest:.3g} at damping + weight_decay = {penalty:g}. Raise damping above "
        f"{penalty - smallest:.3g}, or train until the loss is at a minimum."
    )
