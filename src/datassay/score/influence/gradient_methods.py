"""Methods that take one gradient per sample and one a query: Gauss–Newton by blocks, and TracIn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from datassay.collect.gradients.batches import Batches, group_batches, labels_by_name
from datassay.collect.gradients.criteria import check_classes
from datassay.collect.gradients.reading import Unlabelled, batches
from datassay.collect.jacobian.inputs import takes_integers
from datassay.data.samples import SampleSet
from datassay.errors import DataError, SettingError
from datassay.optional import coalesce
from datassay.score.effects import Attribution, TopEffects, gather
from datassay.score.influence.block_basis import BlockBasis, block_bases
from datassay.score.influence.exact_blocks import check_curvature_memory, exact_rule, penalties
from datassay.score.influence.first_order import (
    Directions,
    Measure,
    average_effects,
    directions,
    measure_of,
    removal_effects,
    too_far,
)
from datassay.score.influence.given import label_doubts
from datassay.score.influence.linearized.choice import choose
from datassay.score.influence.request import Request
from datassay.score.influence.segments import (
    TrainingSegment,
    carry_back,
    run_name,
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
    """Compute effects from gradients alone, averaged over networks; add TracIn's checkpoints."""
    models, name = prepare(request, train, val)
    network = models[0].network
    if val is None:
        queries = network.train
    else:
        queries = queries_of(network, val)
    network.warnings.extend(queries.warnings)
    indices = None
    if request.removed is not None:
        indices = np.array(check_removed(request.removed, network.n))
    samples = network.removed or network.train
    if samples.ids is None:
        ids = np.concatenate([ids for ids, _ in samples])
    else:
        ids = samples.ids
    own_idx = None
    if val is None:
        own_idx = coalesce(indices, np.arange(len(ids)))
    adds = request.method in TAKES_CHECKPOINTS
    return attribute(models, queries, ids, method=name, top=request.top, own_idx=own_idx, adds=adds)


def queries_of(network: TrainedNetwork, queries: Any, name: str = "val") -> Batches:
    """Split queries into batches as the network takes them."""
    if isinstance(queries, Unlabelled):
        samples = queries.samples
    else:
        samples = queries
    integers = isinstance(samples, SampleSet) and takes_integers(network.model, samples.x[:1])
    return batches(queries, network.pass_size, name, integers=integers)


def check_queries(network: TrainedNetwork, queries: Any, measure: Measure) -> None:
    """Raise if queries lack the targets that the measure needs, before anything is computed."""
    is_named = measure.function is None and measure.objective.kind.compares != "own"
    for _, batch in queries_of(network, queries):
        targets = network.loss.targets(batch)
        if targets is None and is_named and measure.name != "output":
            names = labels_by_name(batch)
            if names:
                raise DataError(
                    "labels in batches must be the numbers of the network's outputs; got names "
                    f"such as {names[0]!r}. Pass arrays, whose names the training's classes have."
                )
            raise SettingError(
                f"measure={measure.name!r} needs the queries' targets. Give them, or take 'output'."
            )
        check_classes(network.loss, targets, network.n_outputs)


def prepare(request: Request, train: Any, queries: Any = None) -> tuple[list[Prepared], str]:
    """Prepare a request's networks for turning gradients into effects; name the method."""
    adds = request.method in TAKES_CHECKPOINTS
    run: list[TrainingSegment] = []
    if adds:
        run = TAKES_CHECKPOINTS[request.method](request.models[0], **request.settings)
    models = [segment.network for segment in run] if adds else request.models
    networks: list[TrainedNetwork] = []
    for i, model in enumerate(models):
        direct = networks[0].per_sample.direct if networks else None  # one's blocks are all's
        networks.append(_prepare_network(request, model, train, i, len(models), direct))
    networks[0].warnings.extend((*request.notes, *label_doubts(networks[0])))
    if len({tuple(b.shape for b in n.per_sample.blocks) for n in networks}) > 1:
        raise SettingError("several models must have one architecture; their sizes differ.")
    deciders = _deciders(request, networks, train)
    request, reason = _with_choice(request, networks)
    measures = [
        replace(measure_of(request.measure, n.loss, has_several=n.has_several), deciders=deciders)
        for n in networks
    ]
    if queries is not None:
        check_queries(networks[0], queries, measures[0])
    pairs = list(zip(networks, measures, strict=True))
    if request.method == "segments":
        fits = [
            with_curvature(n, m, request, index, segment.of_loss(request.unit))
            for index, ((n, m), segment) in enumerate(zip(pairs, run, strict=True))
        ]
        return fits, f"segments{run_name(run)}{temperatures(networks[0])}"
    if adds:
        fits = [with_steps(n, m, segment) for (n, m), segment in zip(pairs, run, strict=True)]
        return fits, f"tracin{run_name(run)}"
    fits = [with_curvature(n, m, request, position) for position, (n, m) in enumerate(pairs)]
    kind = "blocks" if request.curvature == "auto" else request.curvature
    share = ""
    if not isinstance(request.damping, str):
        share = f", damping {request.damping:g}{reason}"
    share += added_damping([0.0 if fit.training is None else fit.training.damping for fit in fits])
    return fits, f"gauss_newton by {kind}{share}{temperatures(networks[0])}"


def _with_choice(request: Request, networks: list[TrainedNetwork]) -> tuple[Request, str]:
    """Set damping and temperature where they are chosen; say why. All networks have the first's."""
    if request.damping != "auto" or request.method != "gauss_newton":
        return request, ""
    choice = choose(networks[0], request.curvature, request.weight_decay, request.seed)
    if choice is None:
        return request, ""
    for network in networks:
        if network.own_loss is not None and choice.temperature == network.own_loss.temperature:
            network.loss = network.own_loss
            network.own_loss = None
    return replace(request, damping=choice.damping), str(choice)


def _deciders(
    request: Request, networks: list[TrainedNetwork], train: Any
) -> tuple[nn.Module, ...]:
    """Return the networks whose mean output decides the class of "output"; empty: each its own."""
    if len(networks) == 1:
        return ()
    if request.method == "segments":
        return (networks[-1].model,)
    if request.method == "tracin":  # the trained network, not its checkpoints
        return (_prepare_network(request, request.models[0], train, 0, 1).model,)
    return tuple(n.model for n in networks)


def _prepare_network(
    request: Request,
    model: nn.Module,
    train: Any,
    index: int,
    n: int,
    direct: frozenset[str] | None = None,
) -> TrainedNetwork:
    network = trained_network(
        model,
        train,
        loss=request.loss,
        parameters=request.parameters,
        precision=request.precision or "float32",
        device=request.device,
        progress=request.progress_of(index, n),
        direct=direct,
    )
    if request.method != "tracin":
        with_temperature(network, request.temperature)
    if request.removed is not None:
        assert network.train.subset is not None
        idx = check_removed(request.removed, network.n)
        network.removed = network.train.subset(idx)
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
        training: what it had left to learn, where damping follows that.
    """

    network: TrainedNetwork
    bases: dict[str, BlockBasis]
    measure: Measure
    scale: float
    time: float | None = None
    training: ShortTraining | None = None


def with_curvature(
    network: TrainedNetwork,
    measure: Measure,
    request: Request,
    index: int,
    segment: TrainingSegment | None = None,
) -> Prepared:
    """Fit a network's Hessian by blocks; in a segment of a run "auto" damping is 0."""
    seed = request.seed + index
    blocks = network.per_sample.blocks
    decay = request.weight_decay
    exact = exact_rule(request.curvature, network.n, blocks)
    check_curvature_memory(blocks, exact)
    metrics = {}
    damping = request.damping
    if segment is not None:
        metrics = segment.metrics(blocks, float(decay))
        if damping == "auto":
            damping = 0.0
    training = None
    if segment is None:
        training = left_to_learn(network, damping)
    bases = block_bases(
        blocks,
        lambda: network.roots(seed, "fit the curvature"),
        network.n,
        penalties(blocks, network.n, exact, damping, 0.0 if metrics else decay),
        exact=exact,
        spectral=segment is not None,
        dtype=network.dtype,
        metrics=metrics,
        training=training,
    )
    if segment is None:
        return Prepared(network, bases, measure, 1 / network.n, training=training)
    set_time(bases, segment.time)
    return Prepared(network, bases, measure, 1 / network.n, segment.time)


def with_steps(network: TrainedNetwork, measure: Measure, segment: TrainingSegment) -> Prepared:
    """Prepare a network for gradient steps instead of curvature, as TracIn takes them."""
    metrics = segment.metrics(network.per_sample.blocks)
    bases = {}
    for b in network.per_sample.blocks:
        ones = torch.ones(b.shape, dtype=torch.float64, device=network.device)
        steps = None
        if metrics:
            steps = metrics[b.name].steps.to(network.device)
        bases[b.name] = BlockBasis(b, None, None, None, ones, response=steps)
    return Prepared(network, bases, measure, segment.time)


def attribute(
    models: Sequence[Prepared],
    queries: Batches,
    ids: np.ndarray,
    *,
    method: str,
    top: int | None,
    own_idx: np.ndarray | None,
    adds: bool = False,
) -> Attribution:
    """Compute effects averaged over networks (or added over checkpoints), by groups of queries."""
    share = 1.0 if adds else 1 / len(models)
    parts = []
    for indices, towards in towards_queries(models, queries):
        values = torch.stack([d.values for d in towards]).mean(0)
        # Self-influence is that of the first group.
        networks = [replace(p.network, own_loss=None) if parts else p.network for p in models]
        streams = [
            removal_effects(network, p.bases, d, p.scale)
            for network, p, d in zip(networks, models, towards, strict=True)
        ]
        mine = None
        if own_idx is not None and len(values) == len(indices):  # no tokens
            mine = np.where(np.isin(own_idx, indices), own_idx - indices[0], -1)
        name = models[0].measure.name
        outcome = gather(average_effects(streams, share), values, name, ids, method, top, mine)
        parts.append(outcome)
    result = _join_groups(parts)
    warnings = dict.fromkeys(w for p in models for w in p.network.warnings)
    kind = models[0].network.loss.kind
    if kind.has_one_class and not kind.is_of_tokens and method != "tracin":
        warnings |= dict.fromkeys(too_far(result))
    return replace(result, warnings=tuple(warnings))


def towards_queries(
    models: Sequence[Prepared], queries: Batches
) -> Iterator[tuple[np.ndarray, list[Directions]]]:
    """Yield positions of as many queries as memory allows, and each network's directions."""
    size = sum(block.size for block in models[0].network.per_sample.blocks)
    timed = [(p.network, p.bases, p.measure, p.time) for p in models if p.time is not None]
    for group, indices in group_batches(queries, max(1, QUERY_VALUES // size // len(models))):
        if timed:
            yield indices, carry_back(timed, group)
        else:
            yield indices, [directions(p.network, p.bases, group, p.measure) for p in models]


def _join_groups(parts: list[Attribution]) -> Attribution:
    """Join the results of groups of queries in one."""
    merged = parts[0]
    if len(parts) == 1:
        return merged
    effects = [p.effect for p in parts if p.effect is not None]
    names = [field.name for field in fields(TopEffects)]
    top = {name: np.concatenate([getattr(p.top, name) for p in parts]) for name in names}
    return replace(
        merged,
        effect=np.concatenate(effects, 1) if len(effects) == len(parts) else None,
        top=TopEffects(**top),
        total=np.sum([p.total for p in parts], axis=0),
        outcome=np.concatenate([p.outcome for p in parts]),
    )
