"""Batches of anything: a SampleSet, a loader, a Dataset or a list of samples, in its own order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Subset,
    default_collate,
)

from datassay.data.arguments import check_kind
from datassay.data.convert import as_samples
from datassay.data.samples import SampleSet
from datassay.errors import DataError
from datassay.results import result

ID_FIELDS = ("id", "ids", "idx")
# What the field is filled up with where samples have different lengths; 0 in others.
PADDING = {"labels": -100}


@result
class Batches:
    """Samples in batches, which can be gone through again and again.

    Attributes:
        parts: called for a new pass over (ids or None, batch).
        ids: [n], one a sample; None: counted or read on the way.
        n: how many samples; None: unknown before the first pass.
        subset: gives the samples at these positions as batches; None where they have none.
    """

    parts: Callable[[], Iterator[tuple[np.ndarray | None, Any]]]
    ids: np.ndarray | None
    n: int | None
    subset: Callable[[Sequence[int]], Batches] | None = None

    def __iter__(self) -> Iterator[tuple[np.ndarray, Any]]:
        start = 0
        for ids, batch in self.parts():
            size = batch_size(batch)
            if ids is None:
                places = np.arange(start, start + size)
                ids = places if self.ids is None else self.ids[places]
            start += size
            yield ids, batch


def batches(data: Any, size: int, name: str = "train", *, integers: bool = False) -> Batches:
    """Read samples in batches, in the order in which they are held.

    Args:
        data: a SampleSet (batches are pairs of tensors x, y); a DataLoader, whose batches are taken
            as they come; a Dataset, a `datasets.Dataset` or a list of samples, which are put
            together by torch's collate function, texts of different lengths filled up. A sample
            that is a dictionary may have its "id".
        size: samples a batch, where data is no loader.
        name: of the argument, for errors.
        integers: whether x of a SampleSet is to be whole numbers, as `takes_integers` says.

    Returns:
        The batches.

    Raises:
        DataError: data is none of these, is empty, or a loader draws its order anew in each pass.
    """
    if isinstance(data, SampleSet):
        return Batches(
            lambda: _of_arrays(data, size, integers),
            data.ids,
            len(data),
            lambda places: batches(data.subset(np.array(places)), size, name, integers=integers),
        )
    if isinstance(data, DataLoader):
        return _of_loader(data, name)
    if isinstance(data, IterableDataset):
        return _of_loader(DataLoader(data, size, collate_fn=collate), name)
    if not (hasattr(data, "__getitem__") and hasattr(data, "__len__")) or isinstance(data, Tensor):
        raise DataError(
            f"{name} must be a SampleSet, a DataLoader, a Dataset or a list of samples; got a "
            f"{type(data).__name__}. Arrays are a pair (x, y)."
        )
    if len(data) == 0:
        raise DataError(f"{name} must hold at least 1 sample; got none.")
    return _of_loader(DataLoader(data, size, collate_fn=collate), name)  # pyright: ignore[reportArgumentType]


def samples_or_batches(data: Any, name: str, like: SampleSet | None = None) -> Any:
    """Arrays, frames and Datasets of pairs as a SampleSet; what only batches can hold, as it is.

    Args:
        data: what `as_samples` takes, or what `batches` takes beside it.
        name: of the argument, for errors.
        like: the training samples, whose classes these follow.

    Returns:
        A SampleSet, or data.

    Raises:
        DataError: it is neither.
    """
    if isinstance(data, DataLoader | IterableDataset) or hasattr(data, "column_names"):
        return data
    if isinstance(data, list | Dataset) and len(data) and _is_batchlike(data[0]):  # pyright: ignore[reportArgumentType]
        return data
    found = as_samples(data, name, like)
    if found is None:
        check_kind(name, data, SampleSet)
    return found


def _is_batchlike(sample: Any) -> bool:
    """Whether a sample is one that no array holds: fields by name, or more than x and y."""
    return isinstance(sample, Mapping) or (isinstance(sample, tuple | list) and len(sample) > 2)


def batch_size(batch: Any) -> int:
    """How many samples a batch holds.

    Args:
        batch: a tensor, or a tuple, list or dictionary of them.

    Returns:
        The length of its first tensor.

    Raises:
        DataError: there is no tensor in it.
    """
    for leaf in _leaves(batch):
        if isinstance(leaf, Tensor) and leaf.ndim:
            return len(leaf)
    raise DataError(
        f"a batch must hold tensors, one row a sample; got a {type(batch).__name__} without. Give "
        "the loader a collate_fn that makes tensors."
    )


def grouped(parts: Batches, size: int) -> Iterator[tuple[list[Any], np.ndarray]]:
    """Batches that are held together.

    Args:
        parts: to go through.
        size: samples of a group, unless a batch alone has more.

    Yields:
        Some batches in a row, and the positions of their samples.
    """
    group: list[Any] = []
    start = count = 0
    for _, batch in parts:
        more = batch_size(batch)
        if group and count + more > size:
            yield group, np.arange(start, start + count)
            group, start, count = [], start + count, 0
        group.append(batch)
        count += more
    yield group, np.arange(start, start + count)


def mapped(batch: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The batch with each of its tensors changed.

    Args:
        batch: a tensor, or tuples, lists and dictionaries of them; other values stay.
        change: of one tensor.

    Returns:
        A batch of the same form; a dictionary of any kind becomes a plain one.
    """
    if isinstance(batch, Tensor):
        return change(batch)
    if isinstance(batch, Mapping):
        return {key: mapped(value, change) for key, value in batch.items()}
    if isinstance(batch, tuple | list):
        return type(batch)(mapped(value, change) for value in batch)
    return batch


def rows(batch: Any, chosen: slice) -> Any:
    """Some samples of a batch.

    Args:
        batch: as in `batch_size`.
        chosen: which.

    Returns:
        A batch of these; tensors that do not have one row a sample stay.
    """
    size = batch_size(batch)
    return mapped(batch, lambda t: t[chosen] if t.ndim and len(t) == size else t)


def _leaves(batch: Any) -> Iterator[Any]:
    values = batch.values() if isinstance(batch, Mapping) else batch
    if isinstance(batch, Mapping | tuple | list):
        for value in values:
            yield from _leaves(value)
    else:
        yield batch


def _of_arrays(samples: SampleSet, size: int, integers: bool) -> Iterator[tuple[np.ndarray, Any]]:
    for start in range(0, len(samples), size):
        part = slice(start, start + size)
        x = torch.tensor(np.asarray(samples.x[part]))  # a copy: networks may work in place
        x = x.long() if integers else x if x.is_floating_point() else x.float()
        yield samples.ids[part], (x, torch.tensor(np.asarray(samples.y[part])))


def _of_loader(loader: DataLoader, name: str) -> Batches:
    if isinstance(loader.sampler, RandomSampler) and loader.batch_sampler is not None:
        loader = DataLoader(
            loader.dataset,
            loader.batch_size or 1,
            collate_fn=loader.collate_fn,
            num_workers=loader.num_workers,
        )
    counted = hasattr(loader.dataset, "__len__")
    n = len(loader.dataset) if counted else None  # pyright: ignore[reportArgumentType]

    def parts() -> Iterator[tuple[np.ndarray | None, Any]]:
        empty = True
        for batch in loader:
            empty = False
            yield _ids(batch)
        if empty:
            raise DataError(f"{name} must hold at least 1 sample; got none.")

    def subset(places: Sequence[int]) -> Batches:
        part = Subset(loader.dataset, list(places))
        size = loader.batch_size or 1
        return _of_loader(DataLoader(part, size, collate_fn=loader.collate_fn), name)

    return Batches(parts, None, n, subset if counted else None)


def _ids(batch: Any) -> tuple[np.ndarray | None, Any]:
    """The samples' own ids, where a field is called so, and the batch without them."""
    if not isinstance(batch, Mapping):
        return None, batch
    name = next((field for field in ID_FIELDS if field in batch), None)
    if name is None:
        return None, batch
    return np.asarray(batch[name]), {key: value for key, value in batch.items() if key != name}


def collate(samples: Sequence[Any]) -> Any:
    """Put samples together; fields of different lengths are filled up at their end.

    Args:
        samples: of one form. Of dictionaries, fields of numbers and the id are taken, others
            (texts, say) left out; where one is filled up, `attention_mask` says so if it was not
            there.

    Returns:
        A batch.
    """
    if not isinstance(samples[0], Mapping):
        return default_collate(list(samples))
    batch: dict[str, Any] = {}
    for name, first in samples[0].items():
        values = [sample[name] for sample in samples]
        if name in ID_FIELDS:
            batch[name] = values
        elif not isinstance(first, str | bytes) and first is not None:
            batch[name] = _stacked([torch.as_tensor(v) for v in values], PADDING.get(name, 0))
    lengths = [len(torch.as_tensor(s["input_ids"])) for s in samples if "input_ids" in s]
    if lengths and "attention_mask" not in batch and len(set(lengths)) > 1:
        batch["attention_mask"] = (
            torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
        ).long()
    return batch


def _stacked(values: list[Tensor], fill: int) -> Tensor:
    if len({v.shape for v in values}) == 1:
        return torch.stack(values)
    return torch.nn.utils.rnn.pad_sequence(values, batch_first=True, padding_value=fill)
