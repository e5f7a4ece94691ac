"""Differentiate a whole training run: what removing a sample changes, first order in its weight.

With the loss L(w, ε) = (Σ_j ℓ_j − ε ℓ_i + n λ/2 ‖w − w₀‖²) / (n − ε), ẇ_i the derivative of the
trained weights by ε and w₋ᵢ ≈ w + ẇ_i, every step w ← w − η ∇L carries with it
ẇ_i ← ẇ_i − η (H ẇ_i + (∇L − ∇ℓ_i)/n).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from datassay.collect.collection import check_sets, network_targets
from datassay.collect.curvature.hessian import (
    LossAt,
    flat_weights,
    hessian_products,
    inputs,
    loss_at,
    loss_gradients,
    mean_gradient,
    output_changes,
    outputs_at,
    with_weights,
)
from datassay.collect.curvature.output_loss import task_loss
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.progress import Progress, silent
from datassay.score.effects import Attribution, OutputChanges, effects_of, gather, outcome
from datassay.score.settings import Influence, Queries, Training
from datassay.train.retrain import positions

STEP = "differentiate the training run"


@checks_arguments
def unrolled(
    model: nn.Module,
    train: SampleSet,
    val: SampleSet | None = None,
    *,
    lr: float,
    steps: int = Training.steps,
    weight_decay: float = Training.weight_decay,
    loss: str = Influence.loss,
    measure: str = Queries.measure,
    removed: Sequence[int] | np.ndarray | None = None,
    top: int | None = Queries.top,
    precision: str = "float32",
    progress: Progress = silent,
) -> Attribution:
    """Effect of each training sample on each query through the whole of a training run.

    Args:
        model: at the weights that training starts from; copied.
        train: n samples.
        val: the queries; None takes the training samples.
        lr: step size of full-batch gradient descent on the mean loss, as in `retrain`.
        steps: t.
        weight_decay: (weight_decay/2)‖w − w₀‖² added to the mean loss.
        loss: "cross_entropy", "mse", or "auto": by the task.
        measure: "output", "margin" or "loss".
        removed: positions of the s samples to remove, one at a time; None: all.
        top: as in `attribution`.
        precision: "float32" or "float64".
        progress: called with (step, network updates done, in all).

    Returns:
        The effects of the removed samples, in their order.

    Raises:
        SettingError: a setting is out of range, or the derivatives overflow: the run amplifies
            small changes, and lr must be lower for any first-order answer to hold.
        DataError: too few samples, or train and val do not belong together.
        ModelError: outputs do not fit the targets, or a layer cannot be vectorised.

    Cost: about four passes over the n samples per step and removed sample, the order of `retrain`
    itself; s weight vectors held.
    Source: METHODS §3, "differentiating the whole training run", forward mode. First order in the
    sample's weight, with no assumption of a minimum; right where training is smooth.
    """
    check_sets(train, val)
    loss = task_loss(train, loss)
    if not (lr > 0 and steps >= 1 and weight_decay >= 0):
        raise SettingError(
            "lr must be positive, steps at least 1 and weight_decay at least 0; got "
            f"{lr}, {steps} and {weight_decay}."
        )
    chosen = positions(removed, len(train))
    start = loss_at(model, train, loss, precision)
    report = partial(progress, STEP)
    trained, moves = _unroll(start, torch.tensor(chosen), (lr, steps, weight_decay), report)
    queries, seen = (start.x, train) if val is None else (inputs(start.template, val), val)
    outputs = outputs_at(trained, queries).double().cpu()
    targets = network_targets(seen, outputs.shape[1])
    measured = outcome(measure, loss, outputs, targets, is_classification=train.is_classification)
    effects = effects_of(_changes(trained, queries, moves), outputs, measured)
    own = np.array(chosen) if val is None else None
    ids, with_all = train.ids[chosen], measured(outputs)
    return gather(effects, with_all, measured.measure, ids, "unrolled", top, own)


def _unroll(
    start: LossAt,
    removed: Int[Tensor, " s"],
    run: tuple[float, int, float],
    report: Callable[[int, int], None],
) -> tuple[LossAt, Float[Tensor, "s d"]]:
    """The trained network, and w − w₋ᵢ = −ẇ_i for every removed sample."""
    lr, steps, weight_decay = run
    n, now = len(start), start
    first = flat_weights(start)
    own = replace(start, x=start.x[removed], y=start.y[removed])
    tangents = torch.zeros(len(removed), start.n_parameters, dtype=first.dtype)
    for step in range(steps):
        here = replace(own, weights=now.weights)
        pulls = loss_gradients(here, 0, len(removed))  # ∇ℓ_i
        weights = flat_weights(now)
        slope = mean_gradient(now) + weight_decay * (weights - first)
        parts = tangents.split(now.vectors_at_once)
        curved = torch.cat([hessian_products(now, part) for part in parts])
        tangents -= lr * (curved + weight_decay * tangents + (slope - pulls) / n)
        now = with_weights(now, weights - lr * slope)
        report(step + 1, steps)
    if not torch.isfinite(tangents).all():
        raise SettingError(
            f"lr must be low enough for the run's derivatives to stay finite; at lr = {lr} they "
            "overflow, so removing a sample has no first-order effect. Lower lr."
        )
    return now, -tangents


def _changes(
    trained: LossAt, queries: Float[Tensor, "m ..."], moves: Float[Tensor, "s d"]
) -> Iterator[OutputChanges]:
    start = 0
    for part in moves.split(trained.vectors_at_once):
        outputs = output_changes(trained, queries, part).double().cpu()
        yield OutputChanges(start, outputs, part.double().square().sum(1).cpu())
        start += len(part)
