"""Methods that take one gradient per sample and one a query: Gauss–Newton by blocks, and TracIn."""

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
from datassay.score.influence.given import warn_if_labels_mismatch
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
    describe_temperature,
    soften_loss,
    trained_network,
)
from datassay.train.retrain import check_removed

# Values of the queries' gradients that are held at once, 1 GiB in float32.
QUERY_VALUES = 2**28

# Method of `influence` that goes along a training run → function from its settings to the segments.
TAKES_CHECKPOINTS = {"tracin": tracin_settings, "segments": segment_settings}


def by_gradients(request: Request, train: Any, val: Any) -> Attribution:
    """Return effects by per-sample gradients, averaged over networks (summed by TracIn)."""
    models, name = prepare(request, train, val)
    network = models[0].network
    queries = network.train if val is None else queries_of(network, val)
    network.warnings.extend(queries.warnings)
    samples = network.removed or network.train
    ids = samples.ids
    if ids is None:
        ids = np.concatenate([batch_ids for batch_ids, _ in samples])
    own_idx = None
    if val is None:
        own_idx = np.arange(len(ids))
        if request.removed is not None:
            own_idx = np.array(check_removed(request.removed, network.n))
    adds = request.method in TAKES_CHECKPOINTS
    return attribute(models, queries, ids, method=name, top=request.top, own_idx=own_idx, adds=adds)


def queries_of(network: TrainedNetwork, queries: Any, name: str = "val") -> Batches:
    """Split queries into batches as the network takes them."""
    samples = queries.samples if isinstance(queries, Unlabelled) else queries
    takes_whole_numbers = isinstance(samples, SampleSet) and takes_integers(
        network.model, samples.x[:1]
    )
    return batches(queries, network.pass_size, name, as_integers=takes_whole_numbers)


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


def prepare(request: Request, train: Any, queries: Any = None) -> "tuple[list[Prepared], str]":
    """Return each network with its curvature and measure ready, and the method's name."""
    adds = request.method in TAKES_CHECKPOINTS
    run: list[TrainingSegment] = []
    models = request.models
    if adds:
        run = TAKES_CHECKPOINTS[request.method](request.models[0], **request.settings)
        models = [segment.network for segment in run]
    networks: list[TrainedNetwork] = []
    for i, model in enumerate(models):
        direct = networks[0].per_sample.direct if networks else None  # all have the first's blocks
        networks.append(_prepare_network(request, model, train, i, len(models), direct))
    networks[0].warnings.extend((*request.notes, *warn_if_labels_mismatch(networks[0])))
    if len({tuple(b.shape for b in n.per_sample.blocks) for n in networks}) > 1:
        raise SettingError("several models must have one architecture; their sizes differ.")
    deciders = _choose_deciders(request, networks, train)
    request, reason = _choose_damping(request, networks)
    measures = [
        replace(measure_of(request.measure, n.loss, has_several=n.has_several), deciders=deciders)
        for n in networks
    ]
    if queries is not None:
        check_queries(networks[0], queries, measures[0])
    prepared: list[Prepared] = []
    if request.method == "segments":
        for i, segment in enumerate(run):
            segment = segment.of_loss(request.unit)
            prepared.append(with_curvature(networks[i], measures[i], request, i, segment))
        return prepared, f"segments{run_name(run)}{describe_temperature(networks[0])}"
    if adds:
        for i, segment in enumerate(run):
            prepared.append(with_steps(networks[i], measures[i], segment))
        return prepared, f"tracin{run_name(run)}"
    for i, network in enumerate(networks):
        prepared.append(with_curvature(network, measures[i], request, i))
    return prepared, f"gauss_newton by {_curvature_name(request, prepared, reason)}"


def _curvature_name(request: Request, prepared: "list[Prepared]", reason: str) -> str:
    """Return the method's name: curvature, damping and why it was chosen, temperature."""
    curvature = "blocks" if request.curvature == "auto" else request.curvature
    damping = ""
    if not isinstance(request.damping, str):
        damping = f", damping {request.damping:g}{reason}"
    damping += added_damping([p.training.damping if p.training else 0.0 for p in prepared])
    return f"{curvature}{damping}{describe_temperature(prepared[0].network)}"


def _choose_damping(request: Request, networks: list[TrainedNetwork]) -> tuple[Request, str]:
    """Return the request with "auto" damping chosen on the first network, and the reason."""
    # Sets the chosen temperature in all networks. Where nothing is to be chosen all stays as it is.
    if request.damping != "auto" or request.method != "gauss_newton":
        return request, ""
    choice = choose(networks[0], request.curvature, request.weight_decay, request.seed)
    if choice is None:
        return request, ""
    for network in networks:
        if (
            network.self_influence_loss is not None
            and choice.temperature == network.self_influence_loss.temperature
        ):
            network.loss = network.self_influence_loss
            network.self_influence_loss = None
    return replace(request, damping=choice.damping), str(choice)


def _choose_deciders(
    request: Request, networks: list[TrainedNetwork], train: Any
) -> tuple[nn.Module, ...]:
    """Return the networks whose mean output decides each query's predicted class; () for one."""
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
    """Return the index-th of n networks as the request has it: loss, temperature, samples."""
    # direct: see `trained_network`.
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
        soften_loss(network, request.temperature)
    if request.removed is not None:
        assert network.train.subset is not None
        idx = check_removed(request.removed, network.n)
        network.removed = network.train.subset(idx)
    return network


@dataclass(frozen=True, slots=True)
class Prepared:
    """One network with what turns its gradients into effects.

    Attributes:
        network: at its weights.
        bases: of its blocks.
        measure: of the queries.
        scale: factor of effects: 1/n, or TracIn's step size.
        time: t of a segment of the training run; None: there are none.
        training: what it had left to learn, where damping follows that; else None.
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
    """Return the network with the eigenbases of its Hessian's blocks; fits the curvature."""
    # index: of the network. segment: of a training run, where "auto" damping is 0.
    seed = request.seed + index
    blocks = network.per_sample.blocks
    decay = request.weight_decay
    is_exact = exact_rule(request.curvature, network.n, blocks)
    check_curvature_memory(blocks, is_exact)
    metrics = {}
    damping = request.damping
    training = None
    if segment is None:
        training = left_to_learn(network, damping)
    else:
        metrics = segment.metrics(blocks, float(decay))
        if damping == "auto":
            damping = 0.0
    bases = block_bases(
        blocks,
        lambda: network.roots(seed, "fit the curvature"),
        network.n,
        penalties(blocks, network.n, is_exact, damping, 0.0 if metrics else decay),
        is_exact=is_exact,
        is_spectral=segment is not None,
        dtype=network.dtype,
        metrics=metrics,
        training=training,
    )
    if segment is None:
        return Prepared(network, bases, measure, 1 / network.n, training=training)
    set_time(bases, segment.time)
    return Prepared(network, bases, measure, 1 / network.n, segment.time)


def with_steps(network: TrainedNetwork, measure: Measure, segment: TrainingSegment) -> Prepared:
    """Return the network for TracIn: identity in place of curvature, times step sizes."""
    metrics = segment.metrics(network.per_sample.blocks)
    bases = {}
    for block in network.per_sample.blocks:
        ones = torch.ones(block.shape, dtype=torch.float64, device=network.device)
        steps = metrics[block.name].steps.to(network.device) if metrics else None
        bases[block.name] = BlockBasis(block, None, None, None, ones, response=steps)
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
    """Return effects averaged over networks, or summed over checkpoints (`adds`)."""
    # ids: of the removed samples. own_idx: their positions among the queries, where these are the
    # training samples; None: they are others.
    # Queries are taken in groups that fit in memory.
    share = 1.0 if adds else 1 / len(models)
    groups: list[Attribution] = []
    for indices, group_directions in directions_by_group(models, queries):
        values = torch.stack([d.values for d in group_directions]).mean(0)
        streams = []
        for prepared, towards in zip(models, group_directions, strict=True):
            network = prepared.network
            if groups:  # self-influence was computed with the first group
                network = replace(network, self_influence_loss=None)
            streams.append(removal_effects(network, prepared.bases, towards, prepared.scale))
        own_columns = None
        if own_idx is not None and len(values) == len(indices):  # one column per query, not token
            own_columns = np.where(np.isin(own_idx, indices), own_idx - indices[0], -1)
        effects = average_effects(streams, share)
        name = models[0].measure.name
        groups.append(gather(effects, values, name, ids, method, top, own_columns))
    result = _join_groups(groups)
    warnings = dict.fromkeys(w for p in models for w in p.network.warnings)
    kind = models[0].network.loss.kind
    if kind.has_one_class and not kind.is_of_tokens and method != "tracin":
        warnings |= dict.fromkeys(too_far(result))
    return replace(result, warnings=tuple(warnings))


def directions_by_group(
    models: Sequence[Prepared], queries: Batches
) -> Iterator[tuple[np.ndarray, list[Directions]]]:
    """Yield groups of queries: their positions, and P ∇(value) by each network."""
    # A group of queries fits in memory. Segments of a run depend on each other.
    n_weights = sum(block.size for block in models[0].network.per_sample.blocks)
    segments = [(p.network, p.bases, p.measure, p.time) for p in models if p.time is not None]
    for group, indices in group_batches(queries, max(1, QUERY_VALUES // n_weights // len(models))):
        if segments:
            yield indices, carry_back(segments, group)
        else:
            yield indices, [directions(p.network, p.bases, group, p.measure) for p in models]


def _join_groups(groups: list[Attribution]) -> Attribution:
    """Return one result of all queries, from those of groups of them."""
    if len(groups) == 1:
        return groups[0]
    effect = None
    effects = [group.effect for group in groups if group.effect is not None]
    if len(effects) == len(groups):
        effect = np.concatenate(effects, 1)
    names = [field.name for field in fields(TopEffects)]
    top = {name: np.concatenate([getattr(group.top, name) for group in groups]) for name in names}
    return replace(
        groups[0],
        effect=effect,
        top=TopEffects(**top),
        total=np.sum([group.total for group in groups], axis=0),
        outcome=np.concatenate([group.outcome for group in groups]),
    )
