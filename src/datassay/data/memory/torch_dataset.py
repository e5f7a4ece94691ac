"""Read any map-style torch Dataset of (x, y) pairs, without importing torch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from datassay.data.memory.arrays import to_numpy
from datassay.data.pictures import pixels
from datassay.data.source import Source, SourcePart
from datassay.errors import DataError, DatassayError


def is_dataset(value: object) -> bool:
    """Whether the value is indexed sample by sample, as a torch Dataset is."""
    if isinstance(value, str | bytes | dict | list | tuple):
        return False
    is_array = hasattr(value, "dtype") or hasattr(value, "dtypes")  # dtypes: a data frame
    return hasattr(value, "__getitem__") and hasattr(value, "__len__") and not is_array


def read_datasets(train: Any, val: Any = None, ids: object = None, source: object = None) -> Source:
    """A source from one Dataset, or from a training and a validation Dataset.

    Args:
        train: yields (x, y) by index; x an array, a tensor, a Pillow image or a string.
        val: the same for the validation part; None: it is split off train.
        ids: [n], one for each sample of train; None: its index in the Dataset.
        source: [n], where each sample of train came from; None: unknown.

    Returns:
        The source; every item has been read once, in order.
    """
    part = _part(train)
    if ids is not None:
        part = replace(part, ids=to_numpy(ids, "ids"))
    if source is not None:
        part = replace(part, source=to_numpy(source, "source"))
    return Source(name="data", train=part, val=None if val is None else _part(val))


def _part(dataset: Any) -> SourcePart:
    pairs = [_pair(_item(dataset, i), i) for i in range(len(dataset))]
    if not pairs:
        raise DataError("the Dataset must hold at least 2 samples; got none. Check its length.")
    return SourcePart(_stacked([x for x, _ in pairs], "x"), _stacked([y for _, y in pairs], "y"))


def _item(dataset: Any, i: int) -> Any:
    try:
        return dataset[i]
    except DatassayError:
        raise
    except Exception as error:
        told = str(error).splitlines()[0][:200] if str(error) else "no message"
        raise DataError(
            f"the Dataset must give each of its samples; item {i} raised {type(error).__name__}: "
            f"{told}. Mend it, or leave that sample out."
        ) from error


def _pair(item: Any, i: int) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise DataError(
            f"a Dataset must yield pairs (x, y); item {i} is a {type(item).__name__}"
            f"{f' of {len(item)}' if hasattr(item, '__len__') else ''}. Wrap it in one that does."
        )
    x, y = item
    return pixels(x) if hasattr(x, "getbands") else to_numpy(x, "x"), to_numpy(y, "y")


def _stacked(arrays: list[np.ndarray], name: str) -> np.ndarray:
    for i, array in enumerate(arrays):
        if array.shape != arrays[0].shape:
            raise DataError(
                f"every {name} of a Dataset must have one shape; item 0 has {arrays[0].shape}, "
                f"item {i} has {array.shape}. Resize, crop or pad in the Dataset's transform."
            )
    if arrays[0].ndim == 0 and arrays[0].dtype.kind in "UO":
        return np.array([str(array) for array in arrays], dtype=object)  # each as long as it is
    return np.stack(arrays)
