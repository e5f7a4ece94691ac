"""Influence functions: what removing each sample changes at trained weights, by several methods."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from datassay.collect.collection import check_sets, network_targets
from datassay.collect.curvature.hessian import inputs, loss_at, outputs_at
from datassay.collect.curvature.output_loss import task_loss
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.progress import Progress, part_of, silent
from datassay.score.attribution import Attribution, Effects, OutputChanges, effects_of, gather
from datassay.score.influence.cg import conjugate_gradients
from datassay.score.influence.exact import exact
from datassay.score.influence.leveraged import leveraged
from datassay.score.influence.lissa import lissa
from datassay.score.influence.problem import Problem
from datassay.score.influence.tracin import tracin
from datassay.score.linear.outcome import Outcome, outcome
from datassay.score.settings import Influence, Queries, Training
from datassay.train.retrain import positions

# A new method is a function from a problem and its settings to output changes, and one line here.
METHODS: dict[str, Callable[..., Iterator[OutputChanges]]] = {
    "gauss_newton": leveraged,
    "exact": exact,
    "cg": conjugate_gradients,
    "lissa": lissa,
    "tracin": tracin,
}


@checks_arguments
def influence(
    model: nn.Module | Sequence[nn.Module],
    train: SampleSet,
    val: SampleSet | None = None,
    *,
    method: str = "gauss_newton",
    loss: str = Influence.loss,
    measure: str = Queries.measure,
    damping: float = Influence.damping,
    weight_decay: float = Training.weight_decay,
    removed: Sequence[int] | np.ndarray | None = None,
    top: int | None = Queries.top,
    precision: str = "float64",
    seed: int = 0,
    progress: Progress = silent,
    **settings: object,
) -> Attribution:
    """Effect of each training sample on each query, to first order at the trained weights.

    w − w₋ᵢ ≈ −(1/n) (H + (damping + weight_decay) I)⁻¹ ∇ℓ_i(w), H the Hessian of the mean loss

    Args:
        model: at weights trained on `train`; run in evaluation mode. Several, trained from other
            seeds: their effects are averaged.
        train: n samples.
        val: the queries; None takes the training samples.
        method: "gauss_newton" (to second order, by each sample's leverage; small models or few
            samples, more with a `projection`), "exact" (the whole Hessian, small models), "cg"
            (conjugate gradients: `tolerance`, `iterations`), "lissa" (`depth`, `scale`,
            `batch_size`, `repeats`) or "tracin" (no Hessian: `lr`, `checkpoints`).
        loss: training loss: "cross_entropy" (one output: binary), "mse" or "auto" (by the task).
        measure: "output" (of the predicted class), "margin" (of the given label) or "loss".
        damping: added to the Hessian to make it invertible; changes the scores.
        weight_decay: of the training, (weight_decay/2)‖w − w₀‖² added to the mean loss.
        removed: positions of the samples to remove, one at a time; None: all.
        top: keep only this many samples per query and direction, as in `attribution`.
        precision: "float64", or "float32" at half the memory and time.
        seed: of the batches of "lissa" and of a projection; each further model takes the next.
        progress: called with (step, units done, units in all).
        settings: the method's own.

    Returns:
        The effects, in the form of `attribution`; `method` names the damping.

    Raises:
        SettingError: a setting is unknown or out of range, the Hessian with damping is not positive
            definite, the outcome does not suit the task, or a recursion diverges.
        DataError: too few samples, or train and val do not belong together.
        ModelError: outputs do not fit the targets or are not finite, or a layer cannot be
            vectorised.

    Cost: a gradient and a solve per sample (see the methods), and m forward passes; n m values, or
    4 m top. Several models are held and computed together.
    Source: Koh and Liang (2017). Exact to first order in 1/n at a minimum with a positive definite
    Hessian; elsewhere damping decides. Deviates by damping alone.
    """
    models = list(model) if isinstance(model, Sequence) else [model]
    _check(method, settings, models, damping, weight_decay)
    check_sets(train, val)
    loss = task_loss(train, loss)
    chosen = None if removed is None else tuple(positions(removed, len(train)))
    problems = []
    for place, one in enumerate(models):
        report = _part(progress, place, len(models))
        mean = loss_at(one, train, loss, precision)
        x = mean.x if val is None else inputs(mean.template, val)
        penalties = (float(damping), float(weight_decay))
        problems.append(
            Problem(one, train, val, mean, x, *penalties, precision, chosen, seed + place, report)
        )
    outputs = [outputs_at(p.mean_loss, p.queries).double().cpu() for p in problems]
    measured = _outcome(measure, loss, outputs, train if val is None else val)
    streams = [
        effects_of(METHODS[method](p, **settings), f, measured)
        for p, f in zip(problems, outputs, strict=True)
    ]
    with_all = torch.stack([measured(f) for f in outputs]).mean(0)
    named = method if method == "tracin" else f"{method}, damping {damping:g}"
    ids = train.ids if chosen is None else train.ids[list(chosen)]
    own = None if val is not None else np.arange(len(train)) if chosen is None else np.array(chosen)
    result = gather(_averaged(streams), with_all, measure, ids, named, top, own)
    warnings = dict.fromkeys(w for p in problems for w in p.warnings)
    return replace(result, warnings=tuple(warnings))


def _check(
    method: str,
    settings: dict[str, object],
    models: list[nn.Module],
    damping: float,
    weight_decay: float,
) -> None:
    if method not in METHODS:
        names = ", ".join(repr(name) for name in METHODS)
        raise SettingError(f"method must be one of {names}; got {method!r}.")
    takes = list(inspect.signature(METHODS[method]).parameters)[1:]
    unknown = [name for name in settings if name not in takes]
    if unknown:
        rule = f"takes {', '.join(takes)}" if takes else "takes no settings of its own"
        raise SettingError(f"method {method!r} {rule}; got {', '.join(unknown)}.")
    for name, value in (("damping", damping), ("weight_decay", weight_decay)):
        if not 0 <= value < float("inf"):
            raise SettingError(f"{name} must be at least 0 and finite; got {value}.")
    if not models:
        raise SettingError("model must be a network or a list of them; got an empty list.")
    if len(models) > 1 and settings.get("checkpoints") is not None:
        raise SettingError(
            f"checkpoints belong to one training run; got {len(models)} models. Call once a model."
        )


def _outcome(measure: str, loss: str, outputs: list[Tensor], queries: SampleSet) -> Outcome:
    """One outcome for all models: the predicted class is that of their mean output."""
    mean = torch.stack(outputs).mean(0)
    targets = network_targets(queries, mean.shape[1])
    return outcome(measure, loss, mean, targets, is_classification=queries.is_classification)


def _averaged(streams: list[Iterator[Effects]]) -> Iterator[Effects]:
    """Effects averaged over models of one architecture, whose chunks hold the same samples."""
    for parts in zip(*streams, strict=True):
        starts = {(p.start, len(p.effect)) for p in parts}
        if len(starts) > 1:
            raise SettingError("several models must have one architecture; their sizes differ.")
        yield Effects(
            start=parts[0].start,
            effect=torch.stack([p.effect for p in parts]).mean(0),
            prediction=torch.stack([p.prediction for p in parts]).mean(0),
            weight=torch.stack([p.weight for p in parts]).mean(0),
        )


def _part(progress: Progress, place: int, of: int) -> Progress:
    if of == 1:
        return progress
    return lambda step, done, total: part_of(progress, step, place * total, of * total)(
        step, done, total
    )
