"""Which samples a Dataset or a DataLoader stands for, in which order, the same in every pass.

A sampler is asked, not guessed; samples that are drawn at random each time they are read, as
augmentation does, are drawn once.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

from datassay.collect.gradients.batches import digest_of
from datassay.errors import DataError
from datassay.models.user_code import user_code
from datassay.results import result

# Indices that a sampler of n samples may draw in one pass; one that gives more never ends.
MOST_DRAWN = 100
GENERATORS = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)
TENSORS = (torch.Tensor, np.ndarray, np.generic)


@result
class Order:
    """The samples behind a loader."""

    indices: np.ndarray  # [n], of the Dataset, as they are read; or words, its keys
    weights: np.ndarray | None = None  # [n], how often each is drawn, 1 on average; None: all alike
    size: int | None = None  # samples a batch; None: not told
    warnings: tuple[str, ...] = ()


def order_of(loader: DataLoader, name: str, *, queries: bool) -> Order:
    """The samples of a loader of a Dataset that has indices; no sample is read."""
    # A sampler in random order stands for all samples that it draws from, in theirs.
    batches: Any = loader.batch_sampler
    if _is(batches, BatchSampler):
        sampler, size, drop = batches.sampler, int(batches.batch_size), bool(batches.drop_last)
    else:
        sampler, size, drop = batches, getattr(batches, "batch_size", None), False
        size = size if isinstance(size, int) else None
    outcome = _known(sampler, name, queries=queries)
    if outcome is None:
        indices, is_fixed = _asked(sampler, loader.dataset, name)
        left = len(indices) % size if drop and is_fixed and size else 0
        message = (
            f"{name} leaves out its last {left} sample{'s' * (left > 1)}: drop_last without "
            "shuffle never trains on them."
        )
        outcome = Order(indices[: len(indices) - left], warnings=(message,) if left else ())
    if not len(outcome.indices):
        raise DataError(f"{name} must hold at least 1 sample; got none.")
    if not queries and outcome.weights is None:
        outcome = _counted(outcome)
    return replace(outcome, size=size)


def _is(sampler: Any, *kinds: type) -> bool:
    """Whether a sampler iterates as torch's own of these kinds does, whatever its class."""
    return any(
        isinstance(sampler, kind) and type(sampler).__iter__ is kind.__iter__ for kind in kinds
    )


def _known(sampler: Any, name: str, *, queries: bool) -> Order | None:
    """The samples of torch's random samplers, which need not be asked; None of others."""
    if _is(sampler, RandomSampler):
        n = len(sampler.data_source)
        if queries and (sampler.replacement or sampler.num_samples < n):
            raise _drawn_anew(sampler, name)
        return Order(np.arange(n))
    if _is(sampler, SubsetRandomSampler):
        return Order(np.asarray(list(sampler.indices)))
    if _is(sampler, DistributedSampler) and (sampler.num_replicas > 1 or sampler.shuffle):
        n, of = len(sampler.dataset), sampler.num_replicas
        message = f"{name} is one of {of} parts of a DistributedSampler: all {n} samples are taken."
        return Order(np.arange(n), warnings=(message,) if of > 1 else ())
    if not _is(sampler, WeightedRandomSampler):
        return None
    weights = sampler.weights.double().numpy()
    drawn = np.flatnonzero(weights > 0)
    if not sampler.replacement and sampler.num_samples >= len(drawn):  # only their order is drawn
        return Order(drawn)
    if queries or not sampler.replacement:
        raise _drawn_anew(sampler, name)
    message = (
        f"{name} is drawn by a WeightedRandomSampler: a sample weighs in the mean loss as often as "
        "it is drawn."
    )
    return Order(drawn, weights[drawn] / weights[drawn].mean(), warnings=(message,))


def _drawn_anew(sampler: Any, name: str) -> DataError:
    return DataError(
        f"{name} must be the same samples in each pass; a {type(sampler).__name__} draws them "
        "anew. Give the Dataset itself, or a loader without a sampler."
    )


def _asked(sampler: Any, data: Any, name: str) -> tuple[np.ndarray, bool]:
    """Indices of two passes compared: fixed, or one set in random order."""

    def refused(error: str) -> str:
        return f"{name}: its sampler or Dataset raised {error} Correct it, or give the Dataset."

    with user_code(refused, DataError), _untouched(sampler):
        first, second = (_one_pass(sampler, len(data), name) for _ in range(2))
    if len(first) == len(second) and (first == second).all():
        return first, True
    if len(first) == len(second) and (np.sort(first) == np.sort(second)).all():
        return np.sort(first), False
    raise DataError(
        f"{name} must be the same samples in each pass; {type(sampler).__name__} draws others in a "
        "second one, so that nobody knows what was trained on. Give the Dataset itself, or a "
        "loader with shuffle=True, which stands for all samples."
    )


def _one_pass(sampler: Any, n: int, name: str) -> np.ndarray:
    drawn: list[Any] = []
    for some in sampler:
        if isinstance(some, TENSORS):
            some = np.asarray(some).reshape(-1).tolist()
        some = some if isinstance(some, list | tuple) else [some]
        drawn += [int(i) if isinstance(i, TENSORS) else i for i in some]
        if len(drawn) > MOST_DRAWN * (n + 1):
            raise DataError(
                f"{name} must end; its sampler gave more than {MOST_DRAWN} indices per sample in "
                "one pass. Give the Dataset itself."
            )
    return np.asarray(drawn)


def _held(sampler: Any) -> Iterator[Any]:
    """The sampler and those inside it."""
    yield sampler
    for value in list(getattr(sampler, "__dict__", {}).values()):
        if isinstance(value, Sampler) and value is not sampler:
            yield from _held(value)


@contextmanager
def _untouched(sampler: Any) -> Iterator[None]:
    """What a pass changes in the sampler and in all generators is put back."""
    before = [(one, dict(vars(one))) for one in _held(sampler) if hasattr(one, "__dict__")]
    held = [value for _, attributes in before for value in attributes.values()]
    put_back = [_putting_back(value) for value in held if isinstance(value, GENERATORS)]
    try:
        with generators_kept():
            yield
    finally:
        for one, attributes in before:
            vars(one).clear()
            vars(one).update(attributes)
        for call in put_back:
            call()


def _putting_back(generator: Any) -> Callable[[], object]:
    """What puts a generator back into its present state."""
    if isinstance(generator, np.random.Generator):
        bits = generator.bit_generator
        return partial(setattr, bits, "state", copy.deepcopy(bits.state))
    if isinstance(generator, random.Random):
        return partial(generator.setstate, generator.getstate())
    return partial(generator.set_state, generator.get_state())


def _counted(outcome: Order) -> Order:
    """Each training sample once, with its weight where some are drawn more often than others."""
    values, positions, counts = np.unique(outcome.indices, return_index=True, return_counts=True)
    if (counts == 1).all():
        return outcome
    order = np.argsort(positions)
    if (counts == counts[0]).all():
        return Order(values[order], warnings=outcome.warnings)
    message = (
        f"{len(values)} samples are drawn {len(outcome.indices)} times in a pass: one that is "
        "drawn twice weighs two."
    )
    return Order(
        values[order], counts[order] / counts.mean(), warnings=(*outcome.warnings, message)
    )


# Samples that are read twice, to see whether they are drawn anew.
LOOKED_AT = 8
SEED = 0


class Drawn:
    """A Dataset whose random draws depend on the sample's index alone: the same in every pass."""

    def __init__(self, dataset: Any):
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: Any) -> Any:
        with fixed_draws(SEED, index):
            return self._dataset[index]


@contextmanager
def generators_kept() -> Iterator[None]:
    """The generators of torch, NumPy and Python are as before when this ends."""
    numpy = np.random.get_state()  # noqa: NPY002 users draw from the global generator
    python, own = random.getstate(), torch.get_rng_state()
    try:
        yield
    finally:
        np.random.set_state(numpy)  # noqa: NPY002
        random.setstate(python)
        torch.set_rng_state(own)


@contextmanager
def fixed_draws(*seeds: Any) -> Iterator[None]:
    """Draws of torch, NumPy and Python by a seed."""
    seed = random.Random(repr(seeds)).getrandbits(32)
    with generators_kept():
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002 the user's own draws
        torch.default_generator.manual_seed(seed)  # of the processor alone
        yield


def settled(dataset: Any, indices: Sequence[Any], name: str) -> tuple[Any, tuple[str, ...]]:
    """A Dataset that gives the same samples each time, or one draw of each, and a warning then."""
    positions = np.linspace(0, len(indices) - 1, min(LOOKED_AT, len(indices))).astype(int)
    few = [indices[position] for position in positions.tolist()]
    if not _differ(lambda i: dataset[i], few, name):
        return dataset, ()
    drawn = Drawn(dataset)
    if _differ(lambda i: drawn[i], few, name):
        raise DataError(
            f"{name} must give the same sample each time it is read; its Dataset draws at random "
            "from a generator of its own. Switch augmentation off, or read it once: "
            "list(dataset)."
        )
    return drawn, (
        f"{name} is drawn at random each time it is read, as augmentation does: one draw of each "
        "sample is taken, the same in every pass. Effects of other draws may differ.",
    )


def collates_alike(
    collate: Callable[[Any], Any], dataset: Any, indices: Sequence[Any], name: str
) -> bool:
    """Whether a collate function gives the same batch of the same samples: no masking at random."""
    few = list(indices[:2])
    return not _differ(lambda some: collate([dataset[i] for i in some]), [few], name)


def _differ(read: Callable[[Any], Any], wanted: Sequence[Any], name: str) -> bool:
    def refused(error: str) -> str:
        return (
            f"{name}: its Dataset or collate function raised {error} Fix it; nothing was computed."
        )

    with user_code(refused, DataError), generators_kept():
        first = [digest_of(read(one)) for one in wanted]
        return first != [digest_of(read(one)) for one in wanted]
