"""Input of every influence method, and code shared by those that solve with the Hessian."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace

import torch
from jaxtyping import Float, Num
from torch import Tensor, nn

from datassay.collect.curvature.hessian import LossAt, loss_gradients, output_changes
from datassay.data.samples import SampleSet
from datassay.progress import Progress, silent
from datassay.results import result
from datassay.score.effects import OutputChanges

Solve = Callable[[Float[Tensor, "s d"]], Float[Tensor, "s d"]]
"""From gradients to (H + penalty I)⁻¹ times each of them."""


@result
class Problem:
    """One trained network whose samples are to be removed, one at a time.

    Attributes:
        model: at its trained weights.
        train: n training samples.
        val: the queries; None where they are the training samples.
        mean_loss: the mean loss of `train` around the weights.
        queries: inputs of the m queries, as `mean_loss` has them.
        damping: added to the Hessian of the mean loss only to make it invertible.
        weight_decay: added to it because the training loss has it.
        precision: of `mean_loss`.
        removed: positions of the samples to remove, one at a time; None: all.
        seed: of a method's random draws.
        progress: called with (step, units done, units in all).
        warnings: a method appends what the user should know.
    """

    model: nn.Module
    train: SampleSet
    val: SampleSet | None
    mean_loss: LossAt
    queries: Num[Tensor, "m ..."]
    damping: float
    weight_decay: float
    precision: str
    removed: tuple[int, ...] | None = None
    seed: int = 0
    progress: Progress = silent
    warnings: list[str] = field(default_factory=list)

    @property
    def penalty(self) -> float:
        """Added to the diagonal of the mean loss's Hessian."""
        return self.damping + self.weight_decay


def newton_changes(problem: Problem, solve: Solve) -> Iterator[OutputChanges]:
    """Infinitesimal removal of every sample: Δ_i = −(1/n) (H + penalty I)⁻¹ ∇ℓ_i.

    Args:
        problem: the network, samples and queries.
        solve: applies the inverse to several gradients.

    Yields:
        Chunks in sample order; output changes are first order in Δ.
    """
    for start, gradients in gradient_chunks(problem):
        moves = solve(gradients) / -len(problem.mean_loss)
        own = -(gradients * moves).sum(1).double().cpu()
        yield replace(moved(problem, start, moves), own=own)


def gradient_chunks(problem: Problem) -> Iterator[tuple[int, Float[Tensor, "chunk d"]]]:
    """Position of a chunk's first sample among those to remove, and its loss gradients."""
    losses = problem.mean_loss
    if problem.removed is not None:
        own = torch.tensor(problem.removed)
        losses = replace(losses, x=losses.x[own], y=losses.y[own])
    n, size = len(losses), losses.vectors_at_once
    for start in range(0, n, size):
        stop = min(start + size, n)
        yield start, loss_gradients(losses, start, stop)
        problem.progress("remove samples", stop, n)


def moved(problem: Problem, start: int, moves: Float[Tensor, "chunk d"]) -> OutputChanges:
    """Output changes by the network's Jacobian and squared weight changes, float64, of w − w₋ᵢ."""
    outputs = output_changes(problem.mean_loss, problem.queries, moves).double().cpu()
    return OutputChanges(start, outputs, moves.double().square().sum(1).cpu())
