"""What every influence method is given, and what those share that solve with the Hessian."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from datassay.collect.curvature.hessian import LossAt, loss_gradients, output_changes
from datassay.data.samples import SampleSet
from datassay.progress import Progress, silent
from datassay.results import result
from datassay.score.attribution import OutputChanges

Solve = Callable[[Float[Tensor, "s d"]], Float[Tensor, "s d"]]
"""From gradients to (H + penalty I)⁻¹ times each of them."""


@result
class Problem:
    """One trained network whose samples are to be removed, one at a time.

    Attributes:
        model: at its trained weights.
        train: n training samples.
        val: the queries; None where they are the training samples.
        at: the mean loss of `train` around the weights.
        queries: inputs of the m queries, as `at` has them.
        damping: added to the Hessian of the mean loss only to make it invertible.
        weight_decay: added to it because training had it.
        precision: of `at`.
        removed: positions of the samples to remove, one at a time; None is every one.
        seed: of whatever a method draws.
        progress: called with (step, units done, units in all).
        warnings: a method appends what the user should know.
    """

    model: nn.Module
    train: SampleSet
    val: SampleSet | None
    at: LossAt
    queries: Float[Tensor, "m ..."]
    damping: float
    weight_decay: float
    precision: str
    removed: tuple[int, ...] | None = None
    seed: int = 0
    progress: Progress = silent
    warnings: list[str] = field(default_factory=list)

    @property
    def penalty(self) -> float:
        """What the diagonal of the Hessian of the mean loss gains."""
        return self.damping + self.weight_decay


def newton_changes(problem: Problem, solve: Solve) -> Iterator[OutputChanges]:
    """Infinitesimal removal of every sample: Δ_i = −(1/n) (H + penalty I)⁻¹ ∇ℓ_i.

    Args:
        problem: the network, samples and queries.
        solve: the method's way to apply the inverse to several gradients.

    Yields:
        Chunks in sample order; output changes are first order in Δ.
    """
    for start, gradients in gradient_chunks(problem):
        yield moved(problem, start, solve(gradients) / -len(problem.at))


def gradient_chunks(problem: Problem) -> Iterator[tuple[int, Float[Tensor, "chunk d"]]]:
    """Gradients of the losses of the samples to remove, as many at once as memory is set aside for.

    Args:
        problem: the network and its samples.

    Yields:
        Position of the first sample among those to remove, and the gradients.
    """
    at = problem.at
    if problem.removed is not None:
        own = torch.tensor(problem.removed)
        at = replace(at, x=at.x[own], y=at.y[own])
    n, size = len(at), at.vectors_at_once
    for start in range(0, n, size):
        stop = min(start + size, n)
        yield start, loss_gradients(at, start, stop)
        problem.progress("remove samples", stop, n)


def moved(problem: Problem, start: int, moves: Float[Tensor, "chunk d"]) -> OutputChanges:
    """The chunk whose removal moves the weights so.

    Args:
        problem: the network and the queries.
        start: position of the chunk's first sample.
        moves: w − w₋ᵢ.

    Returns:
        Output changes by the network's Jacobian, and squared weight changes, in float64.
    """
    outputs = output_changes(problem.at, problem.queries, moves).double().cpu()
    return OutputChanges(start, outputs, moves.double().square().sum(1).cpu())
