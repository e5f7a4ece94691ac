"""Fit models to several versions of several sample sets: networks in stacks, stacks side by side.

A small network keeps no processor busy, and two threads on its products are slower than one.
Networks of different samples, labels and weights are therefore stacked, and each stack is trained
by one thread. Which networks share a stack does not depend on the number of threads, and neither
does a bit of what they learn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import Any, overload

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from datassay.collect.jacobian.inputs import network_inputs
from datassay.collect.jacobian.per_sample import frozen_copy
from datassay.data.samples import OF_EACH, SampleSet
from datassay.machine import thread_count
from datassay.progress import OutOfTime, Progress, check_time, silent
from datassay.results import result
from datassay.train.batches import ragged_batches, stream
from datassay.train.dense_training import dense_stack
from datassay.train.learner import Learner, Networks
from datassay.train.recipe import Recipe, network_recipe
from datassay.train.training import TrainedNetworks, descended, train_networks, with_loss

# Networks of a stack: more fill the caches, fewer pay for each call.
STACK = 10
# Updates are rounded up to this, so that parts that differ by a sample share a stack.
ROUND = 50


@result
class Fitting:
    """Some fits of one learner, and what they are asked.

    Attributes:
        learner: whose fits.
        train: n samples.
        held_out: m samples that the fits are asked about.
        labels: [n] or [n, k], the targets to learn.
        chosen: positions of the samples to learn from.
        weights: [n], of the samples in the loss, of any scale; None: all alike.
        seeds: which of the learner's fits.
    """

    learner: Learner
    train: SampleSet
    held_out: SampleSet
    labels: Shaped[np.ndarray, "n ..."]
    chosen: Int[np.ndarray, " kept"]
    weights: Float[np.ndarray, " n"] | None
    seeds: range

    @property
    def samples(self) -> SampleSet:
        """Those to learn from, with the labels to learn."""
        return replace(self.train, y=self.labels, true_y=None)


@overload
def predictions_of(fittings: Sequence[Fitting]) -> list[Any]: ...
@overload
def predictions_of(fittings: Sequence[Fitting], *, may_end: bool) -> list[Any | None]: ...
def predictions_of(fittings: Sequence[Fitting], *, may_end: bool = False) -> list[Any | None]:
    """What each fit says of its held-out samples: class probabilities or targets, [fits, m, k]."""
    # may_end: whether None stands for what the time of `progress.until` did not last for; else that
    # raises OutOfTime. Networks of plain dense layers share stacks, one thread a stack.
    outputs: list[Any] = [None] * len(fittings)
    groups: dict[Any, list[tuple[int, int]]] = {}
    for i, one in enumerate(fittings):
        if not _is_stackable(one):
            outputs[i] = _in_time(_alone, one)
            continue
        recipe = _recipe(one)
        key = recipe, min(recipe.batch_size or len(one.chosen), len(one.chosen))
        groups.setdefault(key, []).extend((i, seed) for seed in one.seeds)
    stacks = [
        (recipe, size, members[start : start + most])
        for (recipe, size), members in groups.items()
        for most in [min(STACK, fittings[members[0][0]].learner.at_once)]  # pyrefly: ignore[missing-attribute] (networks alone are stacked)
        for start in range(0, len(members), most)
    ]
    trained = list(_side_by_side(lambda one: _in_time(_trained, fittings, *one), stacks))
    reported: dict[int, list[np.ndarray]] = {}
    done = [
        (members, one)
        for (_, _, members), one in zip(stacks, trained, strict=True)
        if one is not None
    ]
    for members, networks in done:
        for s, (i, _) in enumerate(members):
            outputs_of = networks.subset(slice(s, s + 1)).outputs_in_parts
            reported.setdefault(i, []).append(outputs_of(fittings[i].held_out.x)[0].numpy())
    for i, each in reported.items():
        outputs[i] = np.stack(each) if len(each) == len(fittings[i].seeds) else None
    if not may_end and any(out is None for out in outputs):
        raise OutOfTime
    return [
        one.learner.probabilities(out) if out is not None and one.train.is_classification else out
        for one, out in zip(fittings, outputs, strict=True)
    ]


def _in_time(work: Callable[..., Any], *arguments: Any) -> Any:
    """What the work gives; None where the time for it is over."""
    try:
        check_time()
        return work(*arguments)
    except OutOfTime:
        return None


def train_in_stacks(
    models: Sequence[nn.Module],
    train: SampleSet,
    subsets: Int[Tensor, "S kept"],
    recipe: Recipe,
    *,
    seed: int = 0,
    progress: Progress = silent,
) -> TrainedNetworks:
    """What `train_networks` trains, plain dense networks in stacks side by side."""
    x = network_inputs(train.x[:1], models[0], torch.float32)
    if recipe.batch_size is None or dense_stack(models, x) is None:
        return train_networks(models, train, subsets, recipe, seed=seed, progress=progress)
    if len(models) <= STACK:
        with thread_count(1):
            return train_networks(models, train, subsets, recipe, seed=seed, progress=progress)
    size, dtype = min(recipe.batch_size, subsets.shape[1]), getattr(torch, recipe.precision)

    def stack(first: int) -> TrainedNetworks:
        some = subsets[first : first + STACK]
        streams = [stream(seed, first + s) for s in range(len(some))]

        def draw(x: Tensor, y: Tensor):
            same = [0] * len(some)
            return ragged_batches(x, y, list(some), recipe.steps, size, streams, same, None, dtype)

        some_models = models[first : first + STACK]
        return descended(some_models, train, [train.y], recipe, draw, progress=check_time)

    starts, trained = range(0, len(models), STACK), []
    for one in _side_by_side(stack, starts):
        trained.append(one)
        progress("retrain networks", len(trained) * recipe.steps // len(starts), recipe.steps)
    state = {name: torch.cat([one.state[name] for one in trained]) for name in trained[0].state}
    return TrainedNetworks(trained[0].template, state)


def _side_by_side(train: Callable[[Any], Any], stacks: Iterable[Any]) -> Iterator[Any]:
    """The stacks' networks in order, each stack trained by one of the threads that are set."""
    threads = torch.get_num_threads()
    with thread_count(1), ThreadPoolExecutor(threads) as pool:
        # Each in a context of its own, which knows the clock.
        done = [pool.submit(copy_context().run, train, one) for one in stacks]
        for one in done:
            yield one.result()


def _is_stackable(one: Fitting) -> bool:
    """Whether its networks are plain dense layers, which stacks train fast."""
    learner = one.learner
    if not isinstance(learner, Networks) or learner.at_once == 1 or callable(learner.models):
        return False
    x = network_inputs(one.train.x[:1], learner.models[0], torch.float32)
    return dense_stack(learner.models, x) is not None and _recipe(one).batch_size is not None


def _recipe(one: Fitting) -> Recipe:
    assert isinstance(one.learner, Networks)
    recipe = one.learner.recipe
    if recipe is None:
        recipe = network_recipe(len(one.chosen))
        recipe = replace(recipe, steps=-(-recipe.steps // ROUND) * ROUND)
    return with_loss(recipe, one.train)


def _alone(one: Fitting) -> Float[np.ndarray, "_ _ _"]:
    """Fits of the user's model, and of networks that no stack makes faster."""
    subsets = np.tile(one.chosen, (len(one.seeds), 1))
    return one.learner.outputs(
        one.samples, one.held_out, subsets, one.weights, check_time, first=one.seeds.start
    )


def _trained(
    fittings: Sequence[Fitting], recipe: Recipe, size: int, members: list[tuple[int, int]]
) -> TrainedNetworks:
    """The networks of one stack, in the order of its members."""
    some = [fittings[i] for i, _ in members]
    sets = list({id(one.train): one.train for one in some}.values())
    starts = dict(zip(map(id, sets), np.cumsum([0, *map(len, sets[:-1])]), strict=True))
    versions: list[np.ndarray] = []
    version = [_version(versions, one, sets, starts) for one in some]
    weights = None
    if any(one.weights is not None for one in some):
        weights = torch.ones(len(some), sum(map(len, sets)))
        for row, one in zip(weights, some, strict=True):
            if one.weights is not None:
                w = torch.from_numpy(one.weights / one.weights[one.chosen].mean())
                row[starts[id(one.train)] :][: len(w)] = w
    models = [_model(one, seed) for one, (_, seed) in zip(some, members, strict=True)]
    streams = [stream(one.learner.seed, seed) for one, (_, seed) in zip(some, members, strict=True)]
    subsets = [torch.as_tensor(one.chosen + starts[id(one.train)]) for one in some]

    def draw(x: Tensor, y: Tensor):
        dtype = getattr(torch, recipe.precision)
        return ragged_batches(x, y, subsets, recipe.steps, size, streams, version, weights, dtype)

    first = {id(one.train): model for one, model in zip(some, models, strict=True)}
    prepared = torch.cat([_prepared(first[id(one)], one, recipe) for one in sets])
    return descended(
        models, _joined(sets), versions, recipe, draw, progress=check_time, prepared=prepared
    )


def _model(one: Fitting, seed: int) -> nn.Module:
    assert isinstance(one.learner, Networks) and not callable(one.learner.models)
    return one.learner.models[seed]


def _prepared(model: nn.Module, samples: SampleSet, recipe: Recipe) -> Tensor:
    """Inputs of the first dense layer: the fixed layers, fitted to these samples, were applied."""
    frozen = frozen_copy(model, getattr(torch, recipe.precision))
    x = network_inputs(samples.x, frozen, getattr(torch, recipe.precision))
    stack = dense_stack([frozen], x[:1])
    assert stack is not None
    return stack.before(x)


def _version(
    versions: list[np.ndarray], one: Fitting, sets: list[SampleSet], starts: dict[int, Any]
) -> int:
    """Number of the joined labels that hold those of a fitting, which are added where missing."""
    start = starts[id(one.train)]
    here = slice(start, start + len(one.train))
    for number, labels in enumerate(versions):
        if np.array_equal(labels[here], one.labels):
            return number
    labels = np.concatenate([s.y for s in sets])
    labels[here] = one.labels
    versions.append(labels)
    return len(versions) - 1


def _joined(sets: list[SampleSet]) -> SampleSet:
    """Inputs and targets of all sets as one; what samples are shown by is left out."""
    x, y = (np.concatenate([getattr(s, name) for s in sets]) for name in ("x", "y"))
    nothing: dict[str, Any] = dict.fromkeys({*OF_EACH, "rows", "preparation"} - {"x", "y", "ids"})
    return replace(sets[0], x=x, y=y, ids=np.arange(len(x)), **nothing)
