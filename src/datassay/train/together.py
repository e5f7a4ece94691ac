"""Fits of models to several versions of several sample sets: networks in stacks, in parallel.

A small network keeps no processor busy, and two threads on its products are slower than one.
Networks of different samples, labels and weights are therefore stacked, and each stack is trained
by one thread. Which networks share a stack does not depend on the number of threads, and neither
does a bit of what they learn.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, overload

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
from datassay.train.training import TrainedNetworks, train_networks, train_on_batches, with_loss

# Networks of a stack: more fill the caches, fewer pay for each call.
STACK = 10
# Updates are rounded up to this, so that parts that differ by a sample share a stack.
ROUND = 50


@result
class Fitting:
    """Some fits of one learner, and the samples that they predict.

    Attributes:
        learner: whose fits.
        train: n samples.
        held_out: m samples that the fits predict.
        labels: [n] or [n, k], the targets to learn.
        train_idx: positions of the samples to learn from.
        weights: [n], of the samples in the loss, of any scale; None: all equal.
        seeds: numbers of the learner's fits.
    """

    learner: Learner
    train: SampleSet
    held_out: SampleSet
    labels: Shaped[np.ndarray, "n ..."]
    train_idx: Int[np.ndarray, " kept"]
    weights: Float[np.ndarray, " n"] | None
    seeds: range

    @property
    def samples(self) -> SampleSet:
        """The training samples with the labels to learn."""
        return replace(self.train, y=self.labels, true_y=None)


@overload
def predictions_of(fittings: Sequence[Fitting]) -> list[Any]: ...
@overload
def predictions_of(fittings: Sequence[Fitting], *, may_end: bool) -> list[Any | None]: ...
def predictions_of(fittings: Sequence[Fitting], *, may_end: bool = False) -> list[Any | None]:
    """Return each fitting's held-out predictions, [fits, m, k]: probabilities or targets."""
    # may_end: whether None stands for a fitting that the
    # time of `progress.until` was too short for, which else raises OutOfTime. Networks of plain
    # dense layers share stacks, and each stack has one thread.
    outputs: list[Any] = [None] * len(fittings)
    for i, fitting in enumerate(fittings):
        if not _is_stackable(fitting):
            outputs[i] = _run_in_time(_fit_alone, fitting)
    stacks = _group_in_stacks(fittings)
    trained = list(_run_each(lambda stack: _run_in_time(_train_stack, fittings, stack), stacks))
    predictions: dict[int, list[np.ndarray]] = {}  # by fitting, [m, k] for each of its fits
    for stack, networks in zip(stacks, trained, strict=True):
        if networks is None:
            continue
        for s, (i, _) in enumerate(stack.members):
            network = networks.subset(slice(s, s + 1))
            predicted = network.outputs_in_parts(fittings[i].held_out.x)[0].numpy()
            predictions.setdefault(i, []).append(predicted)
    for i, arrays in predictions.items():
        if len(arrays) == len(fittings[i].seeds):
            outputs[i] = np.stack(arrays)
    if not may_end and any(out is None for out in outputs):
        raise OutOfTime
    return [
        fit.learner.probabilities(out) if out is not None and fit.train.is_classification else out
        for fit, out in zip(fittings, outputs, strict=True)
    ]


class _Stack(NamedTuple):
    """Networks that one thread trains together."""

    recipe: Recipe
    batch_size: int
    members: list[tuple[int, int]]  # (position of the fitting, number of its fit), a network each


def _group_in_stacks(fittings: Sequence[Fitting]) -> list[_Stack]:
    """Group the networks of stackable fittings into stacks of one recipe and batch size."""
    groups: dict[tuple[Recipe, int], list[tuple[int, int]]] = {}
    for i, fitting in enumerate(fittings):
        if _is_stackable(fitting):
            recipe = _choose_recipe(fitting)
            n = len(fitting.train_idx)
            key = recipe, min(recipe.batch_size or n, n)
            groups.setdefault(key, []).extend((i, seed) for seed in fitting.seeds)
    stacks = []
    for (recipe, batch_size), members in groups.items():
        learner = fittings[members[0][0]].learner
        assert isinstance(learner, Networks)
        width = min(STACK, learner.at_once)
        for start in range(0, len(members), width):
            stacks.append(_Stack(recipe, batch_size, members[start : start + width]))
    return stacks


def _run_in_time(work: Callable[..., Any], *arguments: Any) -> Any:
    """Return what `work` returns; None once the time of `progress.until` is over."""
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
    """Train as `train_networks` does; plain dense networks in stacks, one thread each."""
    x = network_inputs(train.x[:1], models[0], torch.float32)
    if recipe.batch_size is None or dense_stack(models, x) is None:  # no stack makes them faster
        return train_networks(models, train, subsets, recipe, seed=seed, progress=progress)
    if len(models) <= STACK:  # a single stack
        with thread_count(1):
            return train_networks(models, train, subsets, recipe, seed=seed, progress=progress)
    size = min(recipe.batch_size, subsets.shape[1])

    def train_stack(start: int) -> TrainedNetworks:
        """Train the stack of STACK networks that begins with number `start`."""
        rows = list(subsets[start : start + STACK])
        streams = [stream(seed, start + s) for s in range(len(rows))]
        versions = [0] * len(rows)  # all learn the labels of train
        draw = partial(
            ragged_batches, subsets=rows, steps=recipe.steps, size=size, streams=streams,
            versions=versions, weights=None, dtype=getattr(torch, recipe.precision),
        )  # fmt: skip
        stack = models[start : start + STACK]
        return train_on_batches(stack, train, [train.y], recipe, draw, progress=check_time)

    starts = range(0, len(models), STACK)
    trained = []
    for networks in _run_each(train_stack, starts):
        trained.append(networks)
        progress("retrain networks", len(trained) * recipe.steps // len(starts), recipe.steps)
    state = {name: torch.cat([s.state[name] for s in trained]) for name in trained[0].state}
    return TrainedNetworks(trained[0].template, state)


def _run_each(train: Callable[[Any], Any], stacks: Iterable[Any]) -> Iterator[Any]:
    """Yield the trained stacks in order, each trained on its own thread."""
    n_threads = torch.get_num_threads()
    with thread_count(1), ThreadPoolExecutor(n_threads) as pool:
        # Each in a copy of this context, which knows when the time is over.
        futures = [pool.submit(copy_context().run, train, stack) for stack in stacks]
        for future in futures:
            yield future.result()


def _is_stackable(fitting: Fitting) -> bool:
    """Return whether a fitting's networks are plain dense ones, which stacks train faster."""
    learner = fitting.learner
    if not isinstance(learner, Networks) or learner.at_once == 1 or callable(learner.models):
        return False
    x = network_inputs(fitting.train.x[:1], learner.models[0], torch.float32)
    return (
        dense_stack(learner.models, x) is not None
        and _choose_recipe(fitting).batch_size is not None
    )


def _choose_recipe(fitting: Fitting) -> Recipe:
    """Return a fitting's training recipe; the default one has its updates rounded up."""
    assert isinstance(fitting.learner, Networks)
    recipe = fitting.learner.recipe
    if recipe is None:
        recipe = network_recipe(len(fitting.train_idx))
        recipe = replace(recipe, steps=-(-recipe.steps // ROUND) * ROUND)
    return with_loss(recipe, fitting.train)


def _fit_alone(fit: Fitting) -> Float[np.ndarray, "_ _ _"]:
    """Return the held-out outputs of a fitting that cannot be stacked."""
    subsets = np.tile(fit.train_idx, (len(fit.seeds), 1))
    return fit.learner.outputs(
        fit.samples, fit.held_out, subsets, fit.weights, check_time, first_number=fit.seeds.start
    )


def _train_stack(fittings: Sequence[Fitting], stack: _Stack) -> TrainedNetworks:
    """Return a stack's networks trained together, in the order of its members."""
    # The distinct sample sets are joined to one, and each network learns from its own rows of it,
    # by its own labels and weights.
    recipe = stack.recipe
    fits = [fittings[i] for i, _ in stack.members]
    seeds = [seed for _, seed in stack.members]
    sets = list({id(fit.train): fit.train for fit in fits}.values())
    # id(set) → its first row in the joined set.
    starts = dict(zip(map(id, sets), np.cumsum([0, *map(len, sets[:-1])]), strict=True))
    versions: list[np.ndarray] = []
    version_numbers = [_find_version(versions, fit, sets, starts) for fit in fits]
    weights = None
    if any(fit.weights is not None for fit in fits):
        weights = torch.ones(len(fits), sum(map(len, sets)))
        for row, fit in zip(weights, fits, strict=True):
            if fit.weights is not None:
                fit_weights = torch.from_numpy(fit.weights / fit.weights[fit.train_idx].mean())
                row[starts[id(fit.train)] :][: len(fit_weights)] = fit_weights
    models = [_model(fit, seed) for fit, seed in zip(fits, seeds, strict=True)]
    subsets = [torch.as_tensor(fit.train_idx + starts[id(fit.train)]) for fit in fits]
    streams = [stream(fit.learner.seed, seed) for fit, seed in zip(fits, seeds, strict=True)]
    draw = partial(
        ragged_batches, subsets=subsets, steps=recipe.steps, size=stack.batch_size, streams=streams,
        versions=version_numbers, weights=weights, dtype=getattr(torch, recipe.precision),
    )  # fmt: skip
    model_of = {id(fit.train): model for fit, model in zip(fits, models, strict=True)}
    prepared = torch.cat([_apply_fixed_layers(model_of[id(s)], s, recipe) for s in sets])
    return train_on_batches(
        models, _join_sets(sets), versions, recipe, draw, progress=check_time, prepared=prepared
    )


def _model(fitting: Fitting, seed: int) -> nn.Module:
    assert isinstance(fitting.learner, Networks) and not callable(fitting.learner.models)
    return fitting.learner.models[seed]


def _apply_fixed_layers(model: nn.Module, samples: SampleSet, recipe: Recipe) -> Tensor:
    """Return the inputs of a network's first dense layer, by the fixed layers before it."""
    dtype = getattr(torch, recipe.precision)
    frozen = frozen_copy(model, dtype)
    x = network_inputs(samples.x, frozen, dtype)
    stack = dense_stack([frozen], x[:1])
    assert stack is not None
    return stack.before(x)


def _find_version(
    versions: list[np.ndarray], fitting: Fitting, sets: list[SampleSet], starts: dict[int, Any]
) -> int:
    """Return the index of the label version with this fitting's labels; added if missing."""
    start = starts[id(fitting.train)]
    rows = slice(start, start + len(fitting.train))
    for number, labels in enumerate(versions):
        if np.array_equal(labels[rows], fitting.labels):
            return number
    labels = np.concatenate([s.y for s in sets])
    labels[rows] = fitting.labels
    versions.append(labels)
    return len(versions) - 1


def _join_sets(sets: list[SampleSet]) -> SampleSet:
    """Return one set with all sets' inputs and targets, without columns for display."""
    x = np.concatenate([s.x for s in sets])
    y = np.concatenate([s.y for s in sets])
    dropped: dict[str, Any] = dict.fromkeys({*OF_EACH, "rows", "preparation"} - {"x", "y", "ids"})
    return replace(sets[0], x=x, y=y, ids=np.arange(len(x)), **dropped)
