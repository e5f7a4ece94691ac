"""Runs the methods that take all weights together: one problem a network, effects averaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from datassay.collect.collection import network_targets
from datassay.collect.curvature.hessian import inputs, loss_at, outputs_at
from datassay.collect.curvature.output_loss import task_loss
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.score.effects import (
    Attribution,
    Effects,
    OutputChanges,
    effects_of,
    gather,
    outcome,
)
from datassay.score.influence.request import Request
from datassay.score.influence.whole.gauss_newton import leveraged
from datassay.score.influence.whole.solvers import Problem, conjugate_gradients, exact, lissa
from datassay.train.retrain import positions

# A new method is a function from a problem and its settings to output changes, and one line here.
METHODS: dict[str, Callable[..., Iterator[OutputChanges]]] = {
    "gauss_newton": leveraged,
    "exact": exact,
    "cg": conjugate_gradients,
    "lissa": lissa,
}


def on_arrays(
    request: Request, train: SampleSet, val: SampleSet | None, damping: float
) -> Attribution:
    """Effects by one of METHODS, averaged over the request's networks; damping is absolute."""
    loss = task_loss(train, request.loss)
    method, precision = request.method, request.precision or "float64"
    removed = request.removed
    chosen = None if removed is None else tuple(positions(removed, len(train)))
    settings = dict(request.settings)
    if method == "gauss_newton":
        settings["response"] = request.response
    problems = []
    for place, one in enumerate(request.models):
        report = request.progress_of(place, len(request.models))
        mean = loss_at(one, train, loss, precision)
        x = mean.x if val is None else inputs(mean.template, val)
        penalties = (damping, float(request.weight_decay))
        seed = request.seed + place
        problems.append(
            Problem(one, train, val, mean, x, *penalties, precision, chosen, seed, report)
        )
    outputs = [outputs_at(p.mean_loss, p.queries).double().cpu() for p in problems]
    # One outcome for all models: the predicted class is that of their mean output.
    mean, queries = torch.stack(outputs).mean(0), train if val is None else val
    targets, is_class = network_targets(queries, mean.shape[1]), queries.is_classification
    measured = outcome(request.measure, loss, mean, targets, is_classification=is_class)
    streams = [
        effects_of(METHODS[method](p, **settings), f, measured)
        for p, f in zip(problems, outputs, strict=True)
    ]
    with_all = torch.stack([measured(f) for f in outputs]).mean(0)
    named = f"{method}, damping {damping:g}"
    ids = train.ids if chosen is None else train.ids[list(chosen)]
    own = None if val is not None else np.arange(len(train)) if chosen is None else np.array(chosen)
    measure, top = request.measure, request.top
    result = gather(_averaged(streams), with_all, measure, ids, named, top, own)
    warnings = dict.fromkeys((*request.notes, *(w for p in problems for w in p.warnings)))
    return replace(result, warnings=tuple(warnings))


def _averaged(streams: list[Iterator[Effects]]) -> Iterator[Effects]:
    """Effects averaged over models of one architecture, whose chunks hold the same samples."""
    for parts in zip(*streams, strict=True):
        starts = {(p.start, len(p.effect)) for p in parts}
        if len(starts) > 1:
            raise SettingError("several models must have one architecture; their sizes differ.")
        yield Effects(
            start=parts[0].start,
            effect=torch.stack([p.effect for p in parts]).mean(0),
            prediction=_mean([p.prediction for p in parts]),
            weight=_mean([p.weight for p in parts]),
            own=_mean([p.own for p in parts]),
        )


def _mean(values: list[Tensor | None]) -> Tensor | None:
    found = [v for v in values if v is not None]
    return torch.stack(found).mean(0) if len(found) == len(values) else None
