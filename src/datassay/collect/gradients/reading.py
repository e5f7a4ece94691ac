"""Samples of any kind in batches: a SampleSet, a loader, a Dataset or a list of samples."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, Subset

from datassay.collect.gradients.batches import (
    ID_FIELDS,
    Batches,
    batch_size,
    collate,
    digest_of,
    rows,
    with_ids,
)
from datassay.collect.gradients.order import (
    Order,
    collates_alike,
    fixed_draws,
    generators_kept,
    order_of,
    settled,
)
from datassay.data.arguments import check_kind
from datassay.data.memory.convert import as_samples, read_unlabelled
from datassay.data.samples import SampleSet
from datassay.data.targets import Coding
from datassay.errors import DataError
from datassay.models.user_code import user_code
from datassay.results import result

NO_SETTINGS: Mapping[str, Any] = MappingProxyType({})
# What of a loader goes on to the loader in our order.
KEPT = ("num_workers", "timeout", "worker_init_fn", "multiprocessing_context")


@result
class Unlabelled:
    """Queries whose targets nobody knows: the samples' y means nothing."""

    samples: SampleSet


@result
class Loaded:
    """Samples of a Dataset that has indices, in a known order."""

    dataset: Any  # gives the same sample each time it is read
    order: Order
    collate: Callable[[Any], Any]
    name: str  # of the argument, for errors
    has_ids: bool = False  # of the samples' own
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the loader that reads them
    warnings: tuple[str, ...] = ()

    def batches(self, size: int) -> Batches:
        """The samples in batches of `size`, where the loader does not say; positions as ids."""
        indices = self.order.indices

        def parts() -> Iterator[tuple[np.ndarray | None, Any]]:
            some = Subset(self.dataset, indices.tolist())
            loader = DataLoader(
                some, self.order.size or size, collate_fn=self.collate, **self.settings
            )
            for batch in _read(loader, self.name):
                yield with_ids(batch)

        def subset(places: Sequence[int]) -> Batches:
            chosen = np.asarray(places, dtype=np.int64)
            weights = self.order.weights
            few = replace(
                self.order,
                indices=indices[chosen],
                weights=None if weights is None else weights[chosen],
            )
            return replace(self, order=few).batches(size)

        ids = None if self.has_ids else indices
        return Batches(parts, ids, len(indices), subset, self.order.weights, self.warnings)


class Streamed:
    """Samples that are iterated, the same in every pass: their digest is compared each time."""

    def __init__(self, units: Callable[[], Iterable[Any]], name: str, *, batched: bool):
        """Go through the samples, or batches, twice; refuse a second pass that gives others."""
        self.name, self._batched = name, batched
        self.warnings: tuple[str, ...] = ()
        self._units = units
        self._held: list[Any] | None = None
        with generators_kept():
            self._digest, self.n = self._pass()
        if not self.n:
            raise DataError(f"{name} must hold at least 1 sample; got none.")
        with fixed_draws("a second pass"):  # so that what is drawn at random differs
            digest, n = self._pass()
        self._check(digest, n)

    def _pass(self) -> tuple[bytes, int]:
        sha, n = hashlib.sha256(), 0
        for unit in _read(self._units(), self.name):
            sha.update(digest_of(unit))
            n += batch_size(unit) if self._batched else 1
        return sha.digest(), n

    def _check(self, digest: bytes, n: int) -> None:
        if n != self.n or digest != self._digest:
            what = f"{n} samples after {self.n}" if n != self.n else "others, or in another order"
            raise DataError(
                f"{self.name} must be the same samples in the same order in each pass; a second "
                f"one gave {what}. Give a Dataset with indices, read it once into a list, or "
                "switch its shuffling off."
            )

    def batches(self, size: int) -> Batches:
        """The samples in batches of `size`, where they come one by one; counted without ids."""

        def parts() -> Iterator[tuple[np.ndarray | None, Any]]:
            sha, n = hashlib.sha256(), 0
            for unit in self._in_batches(size, sha):
                n += batch_size(unit)
                yield with_ids(unit)
            self._check(sha.digest(), n)

        return Batches(
            parts, None, self.n, lambda places: self._subset(size, places), None, self.warnings,
            streamed=True,
        )  # fmt: skip

    def _in_batches(self, size: int, sha: Any) -> Iterator[Any]:
        waiting: list[Any] = []
        for unit in _read(self._units(), self.name):
            sha.update(digest_of(unit))
            if self._batched:
                yield unit
                continue
            waiting.append(unit)
            if len(waiting) == size:
                yield collate(waiting)
                waiting = []
        if waiting:
            yield collate(waiting)

    def _subset(self, size: int, places: Sequence[int]) -> Batches:
        """By position: the samples are held in memory from the first time on."""
        if self._held is None:
            self._held = list(self._in_batches(size, hashlib.sha256()))
        held, wanted = self._held, np.asarray(places, dtype=np.int64)
        ends = np.cumsum([batch_size(batch) for batch in held])
        indices = np.searchsorted(ends, wanted, side="right")

        def parts() -> Iterator[tuple[np.ndarray | None, Any]]:
            for run in np.split(np.arange(len(wanted)), np.flatnonzero(np.diff(indices)) + 1):
                batch = held[indices[run[0]]]
                start = ends[indices[run[0]]] - batch_size(batch)
                ids, some = with_ids(batch)
                chosen = (wanted[run] - start).tolist()
                yield wanted[run] if ids is None else ids[chosen], rows(some, chosen)

        return Batches(
            parts, None, len(wanted), lambda few: self._subset(size, wanted[list(few)].tolist())
        )


Read = SampleSet | Unlabelled | Loaded | Streamed


def batches(data: Any, size: int, name: str = "train", *, integers: bool = False) -> Batches:
    """Samples of any kind in batches, in the order in which they are held."""
    if isinstance(data, Unlabelled):
        whole = batches(data.samples, size, name, integers=integers)
        return _without_targets(whole)
    if isinstance(data, SampleSet):
        return Batches(
            lambda: _of_arrays(data, size, integers),
            data.ids,
            len(data),
            lambda places: batches(data.subset(np.array(places)), size, name, integers=integers),
        )
    if not isinstance(data, Loaded | Streamed):
        data = _opened(data, name, queries=False)
    return data.batches(size)


def samples_or_batches(
    data: Any,
    name: str,
    like: SampleSet | None = None,
    coding: Coding | None = None,
    *,
    queries: bool = False,
) -> Read:
    """Arrays, frames and Datasets of pairs as a SampleSet; what only batches can hold, as it is."""
    # Data is what `as_samples` takes; a DataLoader, whose sampler says which samples it stands for;
    # an IterableDataset; a Dataset, a `datasets.Dataset` or a list of samples that are dictionaries
    # or tuples of other than two. Training samples weigh as often as they are drawn.
    if isinstance(data, Loaded | Streamed | Unlabelled):
        return data
    if isinstance(data, DataLoader | IterableDataset) or hasattr(data, "column_names"):
        return _opened(data, name, queries=queries)
    if isinstance(data, list | Dataset) and _is_batchlike(data, name):
        return _opened(data, name, queries=queries)
    if queries and (outcome := read_unlabelled(data, name, like)) is not None:
        return Unlabelled(outcome)
    messages: tuple[str, ...] = ()
    if isinstance(data, Dataset) and isinstance(data, Sized) and len(data):
        data, messages = settled(data, range(len(data)), name)
    samples = as_samples(data, name, like, coding)
    if samples is None:
        check_kind(name, data, SampleSet)
    assert samples is not None
    return replace(samples, warnings=(*samples.warnings, *messages)) if messages else samples


def _is_batchlike(data: Any, name: str) -> bool:
    """Whether samples are such that no array holds: fields by name, or other than x and y."""
    if not hasattr(data, "__len__") or not len(data):
        return False
    with user_code(lambda error: f"{name}: its Dataset raised {error} Correct it.", DataError):
        sample = data[0]
    return (
        isinstance(sample, Mapping)
        or (isinstance(sample, tuple | list) and len(sample) != 2)
        or (isinstance(data, Dataset) and isinstance(sample, Tensor))
    )


def _opened(data: Any, name: str, *, queries: bool) -> Loaded | Streamed:
    """A loader, a Dataset or a list of samples, read in its order."""
    if isinstance(data, IterableDataset):
        return Streamed(lambda: data, name, batched=False)
    if isinstance(data, DataLoader):
        return _of_loader(data, name, queries=queries)
    if not (hasattr(data, "__getitem__") and hasattr(data, "__len__")) or isinstance(data, Tensor):
        raise DataError(
            f"{name} must be a SampleSet, a DataLoader, a Dataset or a list of samples; got a "
            f"{type(data).__name__}. Arrays are a pair (x, y)."
        )
    if len(data) == 0:
        raise DataError(f"{name} must hold at least 1 sample; got none.")
    return _loaded(data, Order(np.arange(len(data))), collate, name)


def _of_loader(loader: DataLoader, name: str, *, queries: bool) -> Loaded | Streamed:
    own = type(loader).__iter__ is not DataLoader.__iter__
    own = own and not type(loader).__module__.startswith("accelerate.")
    if isinstance(loader.dataset, IterableDataset) or loader.batch_sampler is None or own:
        return Streamed(lambda: _in_order(loader), name, batched=True)
    settings = {kept: getattr(loader, kept) for kept in KEPT}
    order = order_of(loader, name, queries=queries)
    return _loaded(loader.dataset, order, loader.collate_fn, name, settings)


def _in_order(loader: DataLoader) -> DataLoader:
    """A loader whose Dataset gives whole batches, in its order where it is shuffled."""
    if loader.batch_sampler is not None or not isinstance(loader.sampler, RandomSampler):
        return loader
    return DataLoader(loader.dataset, None, collate_fn=loader.collate_fn)


def _loaded(
    dataset: Any,
    order: Order,
    collate: Callable[[Any], Any],
    name: str,
    settings: Mapping[str, Any] = NO_SETTINGS,
) -> Loaded | Streamed:
    indices = order.indices.tolist()
    dataset, reported = settled(dataset, indices, name)
    first = dataset[indices[0]]
    has_ids = isinstance(first, Mapping) and any(field in first for field in ID_FIELDS)
    outcome = Loaded(dataset, order, collate, name, has_ids, settings, (*order.warnings, *reported))
    if collates_alike(collate, dataset, indices, name):
        return outcome
    if order.weights is not None:
        raise DataError(
            f"{name} must give the same batch of the same samples; its collate function draws at "
            "random, and its sampler weighs samples. Collate once, into a list of samples."
        )
    held = [batch for _, batch in outcome.batches(order.size or 32).parts()]  # drawn once
    stream = Streamed(lambda: held, name, batched=True)
    stream.warnings = (
        *outcome.warnings,
        f"{name}'s collate function draws at random, as masking does: one draw of each batch is "
        "taken, the same in every pass, and held in memory.",
    )
    return stream


def _read(units: Iterable[Any], name: str) -> Iterator[Any]:
    """Each of them; what the user's Dataset or collate function raises becomes one line."""

    def refused(error: str) -> str:
        return (
            f"{name}: at batch {count} its Dataset or collate function raised {error} Correct it; "
            "nothing was kept."
        )

    count, end = 0, object()
    with user_code(refused, DataError):
        going = iter(units)
    while True:
        with user_code(refused, DataError):
            unit = next(going, end)
        if unit is end:
            return
        yield unit
        count += 1


def _of_arrays(samples: SampleSet, size: int, integers: bool) -> Iterator[tuple[np.ndarray, Any]]:
    for start in range(0, len(samples), size):
        part = slice(start, start + size)
        x = torch.tensor(np.asarray(samples.x[part]))  # a copy: networks may work in place
        x = x.long() if integers else x if x.is_floating_point() else x.float()
        yield samples.ids[part], (x, torch.tensor(np.asarray(samples.y[part])))


def _without_targets(whole: Batches) -> Batches:
    subset = whole.subset
    assert subset is not None
    return replace(
        whole,
        parts=lambda: ((ids, batch[:1]) for ids, batch in whole.parts()),
        subset=lambda places: _without_targets(subset(places)),
    )
