"""The samples of a Dataset or a DataLoader in one order, the same in every pass.

A sampler is asked, not guessed; samples that are drawn at random each time they are read, as
augmentation does, are drawn once.
"""

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
from datassay.optional import text_if
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


def order_of(loader: DataLoader, name: str, *, are_queries: bool) -> Order:
    """Return the order and weights of a loader's samples, without reading any."""
    # A sampler in random order stands for all samples that it draws from, in the Dataset's order.
    batches: Any = loader.batch_sampler
    if _iterates_as(batches, BatchSampler):
        sampler = batches.sampler
        size = int(batches.batch_size)
        drops_last = bool(batches.drop_last)
    else:
        sampler = batches
        size = getattr(batches, "batch_size", None)
        drops_last = False
        if not isinstance(size, int):
            size = None
    order = _read_torch_order(sampler, name, are_queries=are_queries)
    if order is None:
        indices, is_fixed = _ask_sampler(sampler, loader.dataset, name)
        n_dropped = 0
        if drops_last and is_fixed and size:
            n_dropped = len(indices) % size
        message = (
            f"{name} leaves out its last {n_dropped} sample{text_if(n_dropped > 1, 's')}: "
            "drop_last without shuffle never trains on them."
        )
        warnings = (message,) if n_dropped else ()
        order = Order(indices[: len(indices) - n_dropped], warnings=warnings)
    if not len(order.indices):
        raise DataError(f"{name} must hold at least 1 sample; got none.")
    if not are_queries and order.weights is None:
        order = _count_repeats(order)
    return replace(order, size=size)


def _iterates_as(sampler: Any, *kinds: type) -> bool:
    """Return whether a sampler iterates as torch's samplers of these kinds do."""
    return any(
        isinstance(sampler, kind) and type(sampler).__iter__ is kind.__iter__ for kind in kinds
    )


def _read_torch_order(sampler: Any, name: str, *, are_queries: bool) -> Order | None:
    """Return the samples that a random sampler of torch draws from; None for others."""
    if _iterates_as(sampler, RandomSampler):
        n = len(sampler.data_source)
        if are_queries and (sampler.replacement or sampler.num_samples < n):
            raise _refuse_redraws(sampler, name)
        return Order(np.arange(n))
    if _iterates_as(sampler, SubsetRandomSampler):
        return Order(np.asarray(list(sampler.indices)))
    if _iterates_as(sampler, DistributedSampler) and (sampler.num_replicas > 1 or sampler.shuffle):
        n = len(sampler.dataset)
        k = sampler.num_replicas
        message = f"{name} is one of {k} parts of a DistributedSampler: all {n} samples are taken."
        return Order(np.arange(n), warnings=(message,) if k > 1 else ())
    if not _iterates_as(sampler, WeightedRandomSampler):
        return None
    weights = sampler.weights.double().numpy()
    drawn = np.flatnonzero(weights > 0)
    if not sampler.replacement and sampler.num_samples >= len(drawn):  # only their order is drawn
        return Order(drawn)
    if are_queries or not sampler.replacement:
        raise _refuse_redraws(sampler, name)
    message = (
        f"{name} is drawn by a WeightedRandomSampler: a sample weighs in the mean loss as often as "
        "it is drawn."
    )
    return Order(drawn, weights[drawn] / weights[drawn].mean(), warnings=(message,))


def _refuse_redraws(sampler: Any, name: str) -> DataError:
    return DataError(
        f"{name} must be the same samples in each pass; a {type(sampler).__name__} draws them "
        "anew. Give the Dataset itself, or a loader without a sampler."
    )


def _ask_sampler(sampler: Any, data: Any, name: str) -> tuple[np.ndarray, bool]:
    """Return a sampler's indices, and whether its order is fixed; sorted if it is not."""

    def failed_message(error: str) -> str:
        return f"{name}: its sampler or Dataset raised {error} Correct it, or give the Dataset."

    with user_code(failed_message, DataError), _restore_sampler(sampler):
        indices = _draw_indices(sampler, len(data), name)
        repeated = _draw_indices(sampler, len(data), name)
    if len(indices) == len(repeated) and (indices == repeated).all():
        return indices, True
    if len(indices) == len(repeated) and (np.sort(indices) == np.sort(repeated)).all():
        return np.sort(indices), False
    raise DataError(
        f"{name} must be the same samples in each pass; {type(sampler).__name__} draws others in a "
        "second one, so that nobody knows what was trained on. Give the Dataset itself, or a "
        "loader with shuffle=True, which stands for all samples."
    )


def _draw_indices(sampler: Any, n: int, name: str) -> np.ndarray:
    """Return the indices that a sampler draws in one pass."""
    drawn: list[Any] = []
    for step in sampler:
        if isinstance(step, TENSORS):
            step = np.asarray(step).reshape(-1).tolist()
        if not isinstance(step, list | tuple):  # a batch, or a single index
            step = [step]
        drawn += [int(i) if isinstance(i, TENSORS) else i for i in step]
        if len(drawn) > MOST_DRAWN * (n + 1):
            raise DataError(
                f"{name} must end; its sampler gave more than {MOST_DRAWN} indices per sample in "
                "one pass. Give the Dataset itself."
            )
    return np.asarray(drawn)


def _list_samplers(sampler: Any) -> Iterator[Any]:
    """Yield a sampler and the samplers nested in it."""
    yield sampler
    for value in list(getattr(sampler, "__dict__", {}).values()):
        if isinstance(value, Sampler) and value is not sampler:
            yield from _list_samplers(value)


@contextmanager
def _restore_sampler(sampler: Any) -> Iterator[None]:
    """Restore the sampler's state and all random generators when the block ends."""
    states = [(s, dict(vars(s))) for s in _list_samplers(sampler) if hasattr(s, "__dict__")]
    values = [value for _, attributes in states for value in attributes.values()]
    restorers = [_make_restorer(value) for value in values if isinstance(value, GENERATORS)]
    try:
        with keep_generators():
            yield
    finally:
        for s, attributes in states:
            vars(s).clear()
            vars(s).update(attributes)
        for restore in restorers:
            restore()


def _make_restorer(generator: Any) -> Callable[[], object]:
    """Return a function that resets a random generator to its present state."""
    if isinstance(generator, np.random.Generator):
        bits = generator.bit_generator
        return partial(setattr, bits, "state", copy.deepcopy(bits.state))
    if isinstance(generator, random.Random):
        return partial(generator.setstate, generator.getstate())
    return partial(generator.set_state, generator.get_state())


def _count_repeats(order: Order) -> Order:
    """Return an order with each sample once, weighted by how often it was drawn."""
    indices, positions, counts = np.unique(order.indices, return_index=True, return_counts=True)
    if (counts == 1).all():
        return order
    by_position = np.argsort(positions)
    if (counts == counts[0]).all():
        return Order(indices[by_position], warnings=order.warnings)
    message = (
        f"{len(indices)} samples are drawn {len(order.indices)} times in a pass: one that is "
        "drawn twice weighs two."
    )
    weights = counts[by_position] / counts.mean()
    return Order(indices[by_position], weights, warnings=(*order.warnings, message))


# Samples that are read twice, to see whether they are drawn anew.
N_PROBED = 8
SEED = 0


class Drawn:
    """A Dataset whose random draws depend on the sample's index alone: the same in every pass."""

    def __init__(self, dataset: Any):
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: Any) -> Any:
        with seed_draws(SEED, index):
            return self._dataset[index]


@contextmanager
def keep_generators() -> Iterator[None]:
    """Restore the random generators of torch, NumPy and Python when the block ends."""
    numpy_state = np.random.get_state()  # noqa: NPY002 users draw from the global generator
    python_state = random.getstate()
    torch_state = torch.get_rng_state()
    try:
        yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)
        torch.set_rng_state(torch_state)


@contextmanager
def seed_draws(*seeds: Any) -> Iterator[None]:
    """Seed the random generators of torch, NumPy and Python inside the block."""
    seed = random.Random(repr(seeds)).getrandbits(32)
    with keep_generators():
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002 the user's own draws
        torch.default_generator.manual_seed(seed)  # of the processor alone
        yield


def fix_draws(dataset: Any, indices: Sequence[Any], name: str) -> tuple[Any, tuple[str, ...]]:
    """Return the Dataset, or a copy with one fixed draw per sample, and a warning if so."""
    positions = np.linspace(0, len(indices) - 1, min(N_PROBED, len(indices))).astype(int)
    probe = [indices[position] for position in positions.tolist()]
    if not _are_different(lambda i: dataset[i], probe, name):
        return dataset, ()
    drawn = Drawn(dataset)
    if _are_different(lambda i: drawn[i], probe, name):
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
    """Return whether a collate function repeats a batch for the same samples: no random masks."""
    probe = list(indices[:2])
    return not _are_different(lambda idx: collate([dataset[i] for i in idx]), [probe], name)


def _are_different(read: Callable[[Any], Any], arguments: Sequence[Any], name: str) -> bool:
    """Return whether reading the same arguments twice gives different values."""

    def failed_message(error: str) -> str:
        return (
            f"{name}: its Dataset or collate function raised {error} Fix it; nothing was computed."
        )

    with user_code(failed_message, DataError), keep_generators():
        digests = [digest_of(read(argument)) for argument in arguments]
        return digests != [digest_of(read(argument)) for argument in arguments]
