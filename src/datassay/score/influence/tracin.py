"""TracIn: how gradient steps on a sample, at one or several checkpoints, changed the outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from torch import nn

from datassay.collect.curvature.hessian import loss_at
from datassay.errors import SettingError
from datassay.score.attribution import OutputChanges
from datassay.score.influence.problem import Problem, gradient_chunks, moved


def tracin(
    problem: Problem,
    *,
    lr: float | Sequence[float] = 1.0,
    checkpoints: Sequence[nn.Module] | None = None,
) -> Iterator[OutputChanges]:
    """Δ_i = −Σ_c lr_c ∇ℓ_i(w_c), and the outputs' changes by the Jacobian at each checkpoint.

    Args:
        problem: the network, samples and queries; its damping and weight decay are not used.
        lr: step size of the sum of the losses (of their mean: divide by n), one for all checkpoints
            or one each. It scales the scores; at one checkpoint their order does not depend on it.
        checkpoints: networks of the training run; None takes the trained network alone.

    Yields:
        Chunks in sample order.

    Raises:
        SettingError: no checkpoint, an lr that is not positive, or not one lr a checkpoint.

    Cost: two passes per sample and checkpoint, each with one over the queries; two weight vectors
    for each sample of a chunk.
    Source: Pruthi et al. (2020), TracInCP. Deviates: margin and loss are taken of the summed output
    change at the trained network, not of their gradient at each checkpoint; "output" agrees.
    """
    models = [problem.model] if checkpoints is None else list(checkpoints)
    rates = [float(lr)] * len(models) if isinstance(lr, int | float) else [float(v) for v in lr]
    if not models:
        raise SettingError("checkpoints must hold at least 1 network; got none. Pass None for one.")
    if len(rates) != len(models):
        raise SettingError(
            f"lr must be one number, or one per checkpoint; got {len(rates)} for {len(models)}."
        )
    if not all(rate > 0 for rate in rates):
        raise SettingError(f"lr must be positive; got {min(rates)}.")
    passes = [_steps(problem, m, rate) for m, rate in zip(models, rates, strict=True)]
    for parts in zip(*passes, strict=True):
        outputs, moves = parts[0][1], parts[0][2]
        for _, more_outputs, more_moves in parts[1:]:
            outputs, moves = outputs + more_outputs, moves + more_moves
        yield OutputChanges(parts[0][0], outputs, moves.double().square().sum(1).cpu())


def _steps(problem: Problem, model: nn.Module, rate: float) -> Iterator[tuple]:
    """Start, output changes and weight changes of every chunk at one checkpoint."""
    mean_loss = problem.mean_loss
    if model is not problem.model:
        mean_loss = loss_at(model, problem.train, mean_loss.loss, problem.precision)
    here = replace(problem, mean_loss=mean_loss)
    for start, gradients in gradient_chunks(here):
        moves = -rate * gradients
        yield start, moved(here, start, moves).outputs, moves
