"""Samples given as arrays, tensors or Datasets become a SampleSet; nothing is split off."""

from __future__ import annotations

from typing import Any

from datassay.data.arrays import read_arrays
from datassay.data.assemble import one_set
from datassay.data.files.torch_dataset import is_dataset, read_datasets
from datassay.data.samples import SampleSet
from datassay.data.source import Source
from datassay.errors import DataError


def read_in_memory(data: Any, ids: Any = None, source: Any = None) -> Source | None:
    """A source from arrays or Datasets.

    Args:
        data: (x, y) or (x, y, x_val, y_val), a Dataset of (x, y), or (train, val) Datasets.
        ids: [n], one for each training sample; None: the row number.
        source: [n], where each training sample came from; None: unknown.

    Returns:
        The source; None where data is neither.
    """
    parts = list(data) if isinstance(data, tuple | list) else []
    if isinstance(data, tuple) and len(parts) == 2 and all(is_dataset(p) for p in parts):
        return read_datasets(*parts, ids=ids, source=source)
    if isinstance(data, tuple) or any(hasattr(p, "dtype") for p in parts):
        return read_arrays(parts, ids, source)
    if isinstance(data, list) or is_dataset(data):
        return read_datasets(data, ids=ids, source=source)
    return None


def as_samples(value: Any, name: str, like: SampleSet | None = None) -> SampleSet | None:
    """One sample set, of all the samples given.

    Args:
        value: a SampleSet, which is handed back as it is; (x, y) arrays or tensors; or a Dataset of
            (x, y).
        name: of the argument, for errors.
        like: the training samples, whose task and classes these follow; None: y says what they are,
            as in `load`.

    Returns:
        The set; None where the value is none of these.

    Raises:
        DataError: the samples are not usable, or there are two sets where one is meant.
    """
    if isinstance(value, SampleSet):
        return value
    is_pair = isinstance(value, tuple) and len(value) == 2
    if isinstance(value, list | tuple) and any(isinstance(v, SampleSet) for v in value):
        raise DataError(
            f"{name} must be one set of samples; got a {type(value).__name__} of them. Pass each "
            "as an argument of its own: train, val = load(...)."
        )
    if isinstance(value, tuple) and not is_pair:
        raise DataError(
            f"{name} must be one pair (x, y); got {len(value)} values. Pass the validation part as "
            "a pair of its own."
        )
    source = read_in_memory(value)
    if source is None:
        return None
    if source.val is not None:
        raise DataError(
            f"{name} must be one Dataset; got two. Pass each as an argument of its own."
        )
    return one_set(source, like)
