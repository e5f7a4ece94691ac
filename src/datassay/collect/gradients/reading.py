"""Samples of any kind in batches: a SampleSet, a loader, a Dataset or a list of samples."""

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
    has_parts,
    is_nested,
    join_parts,
    rows,
    with_ids,
)
from datassay.collect.gradients.order import (
    Order,
    collates_alike,
    fix_draws,
    keep_generators,
    order_of,
    seed_draws,
)
from datassay.data.arguments import check_kind
from datassay.data.memory.convert import as_samples, read_unlabelled
from datassay.data.samples import SampleSet
from datassay.data.targets import Coding
from datassay.errors import DataError
from datassay.models.user_code import user_code
from datassay.optional import select_rows
from datassay.results import result

NO_SETTINGS: Mapping[str, Any] = MappingProxyType({})
# Settings of the user's loader that the loader in our order takes over.
KEPT = ("num_workers", "timeout", "worker_init_fn", "multiprocessing_context")


@result
class Unlabelled:
    """Queries whose targets are unknown: the samples' y means nothing."""

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
    is_joined: bool = False  # samples have parts that batches join in one axis

    def batches(self, size: int) -> Batches:
        """Return the samples in batches, of the loader's own size if it has one."""
        indices = self.order.indices
        if self.is_joined:
            size = 1
        else:
            size = self.order.size or size

        def parts() -> Iterator[tuple[np.ndarray | None, Any]]:
            selected = Subset(self.dataset, indices.tolist())
            loader = DataLoader(selected, size, collate_fn=self.collate, **self.settings)
            for number, batch in enumerate(_read(loader, self.name)):
                ids, fields = with_ids(batch)
                expected = min(size, len(indices) - number * size)
                if self.is_joined:
                    fields = join_parts(fields)
                elif batch_size(fields) != expected:
                    raise DataError(
                        f"{self.name} must give batches whose first tensor has a row per sample; "
                        f"of {expected} samples it has {batch_size(fields)}. Pad samples of "
                        "several parts to one number of parts."
                    )
                yield ids, fields

        def subset(places: Sequence[int]) -> Batches:
            idx = np.asarray(places, dtype=np.int64)
            weights = self.order.weights
            order = replace(self.order, indices=indices[idx], weights=select_rows(weights, idx))
            return replace(self, order=order).batches(size)

        ids = None if self.has_ids else indices
        return Batches(parts, ids, len(indices), subset, self.order.weights, self.warnings)


class Streamed:
    """Samples that are iterated, the same in every pass: their digest is compared each time.

    A unit is what one step of the iteration gives: a sample or, if `is_batched`, a batch.
    """

    def __init__(self, units: Callable[[], Iterable[Any]], name: str, *, is_batched: bool):
        """Read the units twice; raise DataError where the second pass differs."""
        self.name = name
        self._is_batched = is_batched
        self.warnings: tuple[str, ...] = ()
        self._units = units
        self._held: list[Any] | None = None
        with keep_generators():
            self._digest, self.n = self._read_once()
        if not self.n:
            raise DataError(f"{name} must hold at least 1 sample; got none.")
        with seed_draws("a second pass"):  # so that what is drawn at random differs
            digest, n = self._read_once()
        self._check_pass(digest, n)

    def _read_once(self) -> tuple[bytes, int]:
        """Return the digest and the number of samples of one pass."""
        sha = hashlib.sha256()
        n = 0
        for unit in _read(self._units(), self.name):
            sha.update(digest_of(unit))
            if self._is_batched:
                n += batch_size(unit)
            else:
                n += 1
        return sha.digest(), n

    def _check_pass(self, digest: bytes, n: int) -> None:
        """Raise DataError if a later pass gave other samples than the first."""
        if n != self.n or digest != self._digest:
            change = "others, or in another order"
            if n != self.n:
                change = f"{n} samples after {self.n}"
            raise DataError(
                f"{self.name} must be the same samples in the same order in each pass; a second "
                f"one gave {change}. Give a Dataset with indices, read it once into a list, or "
                "switch its shuffling off."
            )

    def batches(self, size: int) -> Batches:
        """Return the stream in batches: its own, or of `size` samples; ids are positions."""

        def parts() -> Iterator[tuple[np.ndarray | None, Any]]:
            sha = hashlib.sha256()
            n = 0
            for unit in self._read_batches(size, sha):
                n += batch_size(unit)
                yield with_ids(unit)
            self._check_pass(sha.digest(), n)

        return Batches(
            parts, None, self.n, lambda places: self._subset(size, places), None, self.warnings,
            is_streamed=True,
        )  # fmt: skip

    def _read_batches(self, size: int, sha: Any) -> Iterator[Any]:
        """Yield batches of the stream; each unit is added to the digest `sha`."""
        waiting: list[Any] = []
        for unit in _read(self._units(), self.name):
            sha.update(digest_of(unit))
            if self._is_batched:
                yield unit
                continue
            waiting.append(unit)
            if len(waiting) == size:
                yield collate(waiting)
                waiting = []
        if waiting:
            yield collate(waiting)

    def _subset(self, size: int, places: Sequence[int]) -> Batches:
        """Return batches of the samples at these positions; all are held in memory."""
        if self._held is None:
            self._held = list(self._read_batches(size, hashlib.sha256()))
        stored = self._held
        idx = np.asarray(places, dtype=np.int64)
        ends = np.cumsum([batch_size(batch) for batch in stored])
        batch_idx = np.searchsorted(ends, idx, side="right")  # [samples], the batch of each
        batch_changes = np.flatnonzero(np.diff(batch_idx)) + 1

        def parts() -> Iterator[tuple[np.ndarray | None, Any]]:
            for run in np.split(np.arange(len(idx)), batch_changes):  # samples of one batch
                number = batch_idx[run[0]]
                batch = stored[number]
                start = ends[number] - batch_size(batch)
                ids, fields = with_ids(batch)
                local_idx = (idx[run] - start).tolist()
                yield idx[run] if ids is None else ids[local_idx], rows(fields, local_idx)

        return Batches(
            parts, None, len(idx), lambda few: self._subset(size, idx[list(few)].tolist())
        )


Read = SampleSet | Unlabelled | Loaded | Streamed


def batches(data: Any, size: int, name: str = "train", *, as_integers: bool = False) -> Batches:
    """Return samples of any kind as batches, in order; as_integers: x as int64."""
    if isinstance(data, Unlabelled):
        labelled = batches(data.samples, size, name, as_integers=as_integers)
        return _drop_targets(labelled)
    if isinstance(data, SampleSet):
        return Batches(
            lambda: _batch_samples(data, size, as_integers),
            data.ids,
            len(data),
            lambda places: batches(
                data.subset(np.array(places)), size, name, as_integers=as_integers
            ),
        )
    if not isinstance(data, Loaded | Streamed):
        data = _open(data, name, are_queries=False)
    return data.batches(size)


def samples_or_batches(
    data: Any,
    name: str,
    reference: SampleSet | None = None,
    coding: Coding | None = None,
    *,
    are_queries: bool = False,
) -> Read:
    """Return arrays, frames or Datasets of pairs as a SampleSet, other data as batches."""
    # Data is what `as_samples` takes; a DataLoader, whose sampler says which samples it stands for;
    # an IterableDataset; a Dataset, a `datasets.Dataset` or a list of samples that are dictionaries
    # or tuples of other than two. Training samples weigh as often as they are drawn.
    if isinstance(data, Loaded | Streamed | Unlabelled):
        return data
    if isinstance(data, DataLoader | IterableDataset) or hasattr(data, "column_names"):
        return _open(data, name, are_queries=are_queries)
    if isinstance(data, list | Dataset) and _is_batchlike(data, name):
        return _open(data, name, are_queries=are_queries)
    if are_queries:
        unlabelled = read_unlabelled(data, name, reference)
        if unlabelled is not None:
            return Unlabelled(unlabelled)
    messages: tuple[str, ...] = ()
    if isinstance(data, Dataset) and isinstance(data, Sized) and len(data):
        data, messages = fix_draws(data, range(len(data)), name)
    samples = as_samples(data, name, reference, coding)
    if samples is None:
        check_kind(name, data, SampleSet)
    assert samples is not None
    if messages:
        return replace(samples, warnings=(*samples.warnings, *messages))
    return samples


def _is_batchlike(data: Any, name: str) -> bool:
    """Return whether samples must stay batches: dictionaries, or tuples other than (x, y)."""
    if not hasattr(data, "__len__") or not len(data):
        return False
    with user_code(lambda error: f"{name}: its Dataset raised {error} Correct it.", DataError):
        sample = data[0]
    return (
        isinstance(sample, Mapping)
        or (isinstance(sample, tuple | list) and (len(sample) != 2 or is_nested(sample[0])))
        or (isinstance(data, Dataset) and isinstance(sample, Tensor))
    )


def _open(data: Any, name: str, *, are_queries: bool) -> Loaded | Streamed:
    """Return a reader of a loader, a Dataset or a list of samples, in its order."""
    if isinstance(data, IterableDataset):
        return Streamed(lambda: data, name, is_batched=False)
    if isinstance(data, DataLoader):
        return _open_loader(data, name, are_queries=are_queries)
    if not (hasattr(data, "__getitem__") and hasattr(data, "__len__")) or isinstance(data, Tensor):
        raise DataError(
            f"{name} must be a SampleSet, a DataLoader, a Dataset or a list of samples; got a "
            f"{type(data).__name__}. Arrays are a pair (x, y)."
        )
    if len(data) == 0:
        raise DataError(f"{name} must hold at least 1 sample; got none.")
    return _load(data, Order(np.arange(len(data))), collate, name)


def _open_loader(loader: DataLoader, name: str, *, are_queries: bool) -> Loaded | Streamed:
    """Return a reader of a loader's samples; streamed if only the loader can read them."""
    is_custom = type(loader).__iter__ is not DataLoader.__iter__
    is_custom = is_custom and not type(loader).__module__.startswith("accelerate.")
    if isinstance(loader.dataset, IterableDataset) or loader.batch_sampler is None or is_custom:
        return Streamed(lambda: _fix_order(loader), name, is_batched=True)
    settings = {setting: getattr(loader, setting) for setting in KEPT}
    order = order_of(loader, name, are_queries=are_queries)
    return _load(loader.dataset, order, loader.collate_fn, name, settings)


def _fix_order(loader: DataLoader) -> DataLoader:
    """Return the loader with shuffling off, if its Dataset holds whole batches."""
    if loader.batch_sampler is not None or not isinstance(loader.sampler, RandomSampler):
        return loader
    return DataLoader(loader.dataset, None, collate_fn=loader.collate_fn)


def _load(
    dataset: Any,
    order: Order,
    collate: Callable[[Any], Any],
    name: str,
    settings: Mapping[str, Any] = NO_SETTINGS,
) -> Loaded | Streamed:
    """Return a reader by position; a stream if the collate function draws at random."""
    indices = order.indices.tolist()
    dataset, notes = fix_draws(dataset, indices, name)
    example = dataset[indices[0]]
    has_ids = isinstance(example, Mapping) and any(field in example for field in ID_FIELDS)
    loaded = Loaded(dataset, order, collate, name, has_ids, settings, (*order.warnings, *notes))
    if collates_alike(collate, dataset, indices, name):
        probe = [dataset[i] for i in indices[:2]]
        _, batch = with_ids(collate(probe))
        if batch_size(batch) == len(probe) and not has_parts(batch, collate, probe):
            return loaded
        note = (
            f"{name} joins the parts of its samples in one axis, as the nodes of graphs are: "
            "samples are taken one at a time."
        )
        return replace(loaded, is_joined=True, warnings=(*loaded.warnings, note))
    if order.weights is not None:
        raise DataError(
            f"{name} must give the same batch of the same samples; its collate function draws at "
            "random, and its sampler weighs samples. Collate once, into a list of samples."
        )
    drawn_batches = [batch for _, batch in loaded.batches(order.size or 32).parts()]  # once
    stream = Streamed(lambda: drawn_batches, name, is_batched=True)
    stream.warnings = (
        *loaded.warnings,
        f"{name}'s collate function draws at random, as masking does: one draw of each batch is "
        "taken, the same in every pass, and held in memory.",
    )
    return stream


def _read(units: Iterable[Any], name: str) -> Iterator[Any]:
    """Yield units; errors of the user's Dataset or collate become DataError."""
    n_read = 0

    def failed_message(error: str) -> str:
        return (
            f"{name}: at batch {n_read} its Dataset or collate function raised {error} Correct it; "
            "nothing was kept."
        )

    end = object()
    with user_code(failed_message, DataError):
        iterator = iter(units)
    while True:
        with user_code(failed_message, DataError):
            unit = next(iterator, end)
        if unit is end:
            return
        yield unit
        n_read += 1


def _batch_samples(
    samples: SampleSet, size: int, as_integers: bool
) -> Iterator[tuple[np.ndarray, Any]]:
    """Yield (ids, (x, y)) in batches of `size`, x as int64 or float."""
    for start in range(0, len(samples), size):
        rows = slice(start, start + size)
        x = torch.tensor(np.asarray(samples.x[rows]))  # a copy: networks may work in place
        if as_integers:
            x = x.long()
        elif not x.is_floating_point():
            x = x.float()
        yield samples.ids[rows], (x, torch.tensor(np.asarray(samples.y[rows])))


def _drop_targets(labelled: Batches) -> Batches:
    """Return batches (x, y) as (x,)."""
    subset = labelled.subset
    assert subset is not None
    return replace(
        labelled,
        parts=lambda: ((ids, batch[:1]) for ids, batch in labelled.parts()),
        subset=lambda places: _drop_targets(subset(places)),
    )
