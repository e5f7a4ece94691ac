"""Methods that take one gradient per sample and one a query: Gauss–Newton by blocks, and TracIn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from datassay.collect.gradients.batches import Batches, group_batches, labels_by_name, targets_of
from datassay.collect.gradients.criteria import check_classes
from datassay.collect.gradients.reading import Unlabelled, batches
from datassay.collect.jacobian.inputs import takes_integers
from datassay.data.samples import SampleSet
from datassay.errors import DataError, SettingError
from datassay.score.effects import Attribution, TopEffects, gather
from datassay.score.influence.block_basis import BlockBasis, block_bases
from datassay.score.influence.exact_blocks import check_curvature_memory, exact_rule, penalties
from datassay.score.influence.first_order import (
    Directions,
    Measure,
    averaged,
    directions,
    measure_of,
    removal_effects,
    too_far,
)
from datassay.score.influence.given import label_doubts
from datassay.score.influence.request import Request
from datassay.score.influence.segments import (
    TrainingSegment,
    along_the_run,
    of_the_run,
    segment_settings,
    set_time,
    tracin_settings,
)
from datassay.score.influence.short_training import ShortTraining, added_damping, left_to_learn
from datassay.score.influence.trained_network import (
    TrainedNetwork,
    temperatures,
    trained_network,
    with_temperature,
)
from datassay.train.retrain import check_removed

# Values of the queries' gradients that are held at once, 1 GiB in float32.
QUERY_VALUES = 2**28


def by_gradients(request: Request, train: Any, val: Any) -> Attribution:
    """Effects from gradients alone, averaged over networks; TracIn's added over checkpoints."""
    each, name = prepared(request, train, val)
    first = each[0].network
    queries = first.train if val is None else queries_of(first, val)
    first.warnings.extend(queries.warnings)
    indices = None if request.removed is None else np.array(check_removed(request.removed, first.n))
    wanted = first.removed or first.train
    ids = np.concatenate([ids for ids, _ in wanted]) if wanted.ids is None else wanted.ids
    own = None if val is not None else np.arange(len(ids)) if indices is None else indices
    adds = request.method in TAKES_CHECKPOINTS
    return attributed(each, queries, ids, method=name, top=request.top, own=own, adds=adds)


def queries_of(network: TrainedNetwork, queries: Any, name: str = "val") -> Batches:
    """Queries in batches as the network takes them."""
    held = queries.samples if isinstance(queries, Unlabelled) else queries
    integers = isinstance(held, SampleSet) and takes_integers(network.model, held.x[:1])
    return batches(queries, network.pass_size, name, integers=integers)


def check_queries(network: TrainedNetwork, queries: Any, measure: Measure) -> None:
    """Refuse queries without the targets that the measure needs, before anything is computed."""
    named = measure.function is None and measure.objective.name != "custom"
    for _, batch in queries_of(network, queries):
        targets = targets_of(batch)
        if targets is None and named and measure.name != "output":
            given = labels_by_name(batch)
            if given:
                raise DataError(
                    "labels in batches must be the numbers of the network's outputs; got names "
                    f"such as {given[0]!r}. Pass arrays, whose names the training's classes have."
                )
            raise SettingError(
                f"measure={measure.name!r} needs the queries' targets. Give them, or take 'output'."
            )
        check_classes(network.loss, targets, network.n_outputs)


def prepared(request: Request, train: Any, queries: Any = None) -> tuple[list[Prepared], str]:
    """The networks of a request with what turns gradients into effects, and the method's name."""
    adds = request.method in TAKES_CHECKPOINTS
    run: list[TrainingSegment] = []
    if adds:
        run = TAKES_CHECKPOINTS[request.method](request.models[0], **request.settings)
    models = [part.network for part in run] if adds else request.models
    networks = [_network(request, one, train, i, len(models)) for i, one in enumerate(models)]
    networks[0].warnings.extend((*request.notes, *label_doubts(networks[0])))
    if len({tuple(b.shape for b in n.per_sample.blocks) for n in networks}) > 1:
        raise SettingError("several models must have one architecture; their sizes differ.")
    deciders = _deciders(request, networks, train)
    measures = [
        replace(measure_of(request.measure, n.loss, several=n.several), deciders=deciders)
        for n in networks
    ]
    if queries is not None:
        check_queries(networks[0], queries, measures[0])
    both = list(zip(networks, measures, strict=True))
    if request.method == "segments":
        each = [
            with_curvature(n, m, request, index, part.of_loss(request.unit))
            for index, ((n, m), part) in enumerate(zip(both, run, strict=True))
        ]
        return each, f"segments{of_the_run(run)}{temperatures(networks[0])}"
    if adds:
        each = [with_steps(n, m, part) for (n, m), part in zip(both, run, strict=True)]
        return each, f"tracin{of_the_run(run)}"
    each = [with_curvature(n, m, request, position) for position, (n, m) in enumerate(both)]
    kind = "blocks" if request.curvature == "auto" else request.curvature
    share = "" if isinstance(request.damping, str) else f", damping {request.damping:g}"
    share += added_damping([0.0 if one.left is None else one.left.damping for one in each])
    return each, f"gauss_newton by {kind}{share}{temperatures(networks[0])}"


def _deciders(
    request: Request, networks: list[TrainedNetwork], train: Any
) -> tuple[nn.Module, ...]:
    """The networks whose mean output decides which class "output" is of; none: each its own."""
    if len(networks) == 1:
        return ()
    if request.method == "segments":
        return (networks[-1].model,)
    if request.method == "tracin":  # the trained network, not its checkpoints
        return (_network(request, request.models[0], train, 0, 1).model,)
    return tuple(n.model for n in networks)


def _network(request: Request, model: nn.Module, train: Any, index: int, of: int) -> TrainedNetwork:
    network = trained_network(
        model,
        train,
        loss=request.loss,
        parameters=request.parameters,
        precision=request.precision or "float32",
        device=request.device,
        progress=request.progress_of(index, of),
    )
    if request.method != "tracin":
        with_temperature(network, request.temperature)
    if request.removed is not None:
        if network.train.subset is None:
            raise SettingError("removed needs samples that have positions; these are iterated.")
        chosen = check_removed(request.removed, network.n)
        network.removed = network.train.subset(chosen)
    return network


# Methods that go along a training run: settings to its parts.
TAKES_CHECKPOINTS = {"tracin": tracin_settings, "segments": segment_settings}


@dataclass(frozen=True, slots=True)
class Prepared:
    """One network with what turns its gradients into effects.

    Attributes:
        network: at its weights.
        bases: of its blocks.
        measure: of the queries.
        scale: 1/n, or a step size.
        time: t of a segment of the training run; None: there are none.
        left: what training had left to learn, where damping follows it.
    """

    network: TrainedNetwork
    bases: dict[str, BlockBasis]
    measure: Measure
    scale: float
    time: float | None = None
    left: ShortTraining | None = None


def with_curvature(
    network: TrainedNetwork,
    measure: Measure,
    request: Request,
    index: int,
    part: TrainingSegment | None = None,
) -> Prepared:
    """A network with its Hessian by blocks, ready; of a run's part "auto" damping is 0."""
    seed, blocks, decay = request.seed + index, network.per_sample.blocks, request.weight_decay
    exact = exact_rule(request.curvature, network.n, blocks)
    check_curvature_memory(blocks, exact)
    metrics = {} if part is None else part.metrics(blocks, float(decay))
    damping = 0.0 if part is not None and request.damping == "auto" else request.damping
    left = left_to_learn(network, damping) if part is None else None
    bases = block_bases(
        blocks,
        lambda: network.roots(seed, "fit the curvature"),
        network.n,
        penalties(blocks, network.n, exact, damping, 0.0 if metrics else decay),
        exact=exact,
        spectral=part is not None,
        dtype=network.dtype,
        metrics=metrics,
        left=left,
    )
    if part is None:
        return Prepared(network, bases, measure, 1 / network.n, left=left)
    set_time(bases, part.time)
    return Prepared(network, bases, measure, 1 / network.n, part.time)


def with_steps(network: TrainedNetwork, measure: Measure, part: TrainingSegment) -> Prepared:
    """A network with gradient steps instead of curvature, as TracIn takes them."""
    metrics = part.metrics(network.per_sample.blocks)
    bases = {}
    for b in network.per_sample.blocks:
        ones = torch.ones(b.shape, dtype=torch.float64)
        steps = metrics[b.name].steps if metrics else None
        bases[b.name] = BlockBasis(b, None, None, None, ones, response=steps)
    return Prepared(network, bases, measure, part.time)


def attributed(
    each: Sequence[Prepared],
    queries: Batches,
    ids: np.ndarray,
    *,
    method: str,
    top: int | None,
    own: np.ndarray | None,
    adds: bool = False,
) -> Attribution:
    """Effects, averaged over networks (or added over checkpoints), queries in groups that fit."""
    share = 1.0 if adds else 1 / len(each)
    parts = []
    for indices, towards in towards_queries(each, queries):
        values = torch.stack([d.values for d in towards]).mean(0)
        # Self-influence is that of the first group.
        networks = [replace(p.network, own_loss=None) if parts else p.network for p in each]
        streams = [
            removal_effects(network, p.bases, d, p.scale)
            for network, p, d in zip(networks, each, towards, strict=True)
        ]
        mine = None if own is None else np.where(np.isin(own, indices), own - indices[0], -1)
        if len(values) != len(indices):  # tokens
            mine = None
        name = each[0].measure.name
        outcome = gather(averaged(streams, share), values, name, ids, method, top, mine)
        parts.append(outcome)
    result = _beside(parts)
    warnings = dict.fromkeys(w for p in each for w in p.network.warnings)
    if each[0].network.loss.name == "cross_entropy" and method != "tracin":
        warnings |= dict.fromkeys(too_far(result))
    return replace(result, warnings=tuple(warnings))


def towards_queries(
    each: Sequence[Prepared], queries: Batches
) -> Iterator[tuple[np.ndarray, list[Directions]]]:
    """Positions of queries, as many as memory allows, and their directions a network."""
    size = sum(block.size for block in each[0].network.per_sample.blocks)
    timed = [(p.network, p.bases, p.measure, p.time) for p in each if p.time is not None]
    for group, indices in group_batches(queries, max(1, QUERY_VALUES // size // len(each))):
        if timed:
            yield indices, along_the_run(timed, group)
        else:
            yield indices, [directions(p.network, p.bases, group, p.measure) for p in each]


def _beside(parts: list[Attribution]) -> Attribution:
    """One result of groups of queries."""
    first = parts[0]
    if len(parts) == 1:
        return first
    whole = [p.effect for p in parts if p.effect is not None]
    names = [one.name for one in fields(TopEffects)]
    top = {name: np.concatenate([getattr(p.top, name) for p in parts]) for name in names}
    return replace(
        first,
        effect=np.concatenate(whole, 1) if len(whole) == len(parts) else None,
        top=TopEffects(**top),
        total=np.sum([p.total for p in parts], axis=0),
        outcome=np.concatenate([p.outcome for p in parts]),
    )
