"""Tensors, data frames, nested lists and map-style Datasets become NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from datassay.data.pictures import pixels
from datassay.data.samples import of_tensor
from datassay.data.source import Source, SourcePart, check_fits
from datassay.data.strings import as_arrow
from datassay.errors import DataError, DatassayError


def read_arrays(arrays: Sequence[Any], ids: object = None, source: object = None) -> Source:
    """A source from (x, y) or (x, y, x_val, y_val)."""
    if len(arrays) not in {2, 4}:
        raise DataError(
            f"arrays must be (x, y) or (x, y, x_val, y_val); got {len(arrays)} of them. "
            "Pass two or four."
        )
    names = ("x", "y", "x_val", "y_val")
    values = [to_numpy(value, name) for value, name in zip(arrays, names, strict=False)]
    train, *val = (SourcePart(*pair) for pair in zip(values[::2], values[1::2], strict=True))
    columns = tuple(str(column) for column in getattr(arrays[0], "columns", ()))
    train = _with_names(train, ids, source)
    return Source("data", train, val[0] if val else None, feature_names=columns)


def _with_names(part: SourcePart, ids: object, source: object) -> SourcePart:
    """Samples with the ids and the sources that the user gives beside them."""
    named = {"ids": ids, "source": source}
    return replace(part, **{n: to_numpy(v, n) for n, v in named.items() if v is not None})


def to_numpy(values: Any, name: str) -> np.ndarray:
    """Arrays, tensors, frames or nested lists as an array of numbers, booleans or strings."""
    # It shares memory with the argument where it can. Strings that are not there in one fixed width
    # stay Python's own, in an array of objects.
    if hasattr(values, "toarray") and hasattr(values, "shape"):  # of scipy
        check_fits(2.0 * np.prod(values.shape) * values.dtype.itemsize, f"{name} as a full array")
        values = values.toarray()
    if np.ma.is_masked(values):
        raise DataError(f"{name} must have no missing values; some are masked. Fill them in.")
    values = of_tensor(values, name)
    # Strings in a list NumPy would make as wide as the longest of them.
    is_words = isinstance(values, list | tuple) and any(isinstance(v, str) for v in values)
    try:
        array = np.asarray(values, dtype=object if is_words else None)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(
            f"{name} must be an array whose rows all have one shape; got {type(values).__name__}: "
            f"{error}. Pass a NumPy array or a CPU tensor of float32."
        ) from error
    if array.dtype.kind == "O":
        return _without_objects(array, name)
    if array.dtype.kind == "S":
        words = as_arrow(pa.array(array.ravel().astype(object), pa.large_binary()), name)
        return words.to_numpy(zero_copy_only=False).astype(object).reshape(array.shape)
    return array.astype(object) if array.dtype.kind == "T" else array


def _without_objects(array: np.ndarray, name: str) -> np.ndarray:
    entries = array.ravel().tolist()
    if all(isinstance(entry, str) for entry in entries):
        return array
    if all(isinstance(entry, bool | int | float | np.number | np.bool_) for entry in entries):
        numbers = np.array(entries)
        if numbers.dtype.kind != "O":
            return numbers.reshape(array.shape)
        raise DataError(
            f"{name} must hold numbers of at most 64 bits; got {max(entries, key=abs)}. Pass such "
            "numbers as strings or as floating point."
        )
    kinds = sorted({type(entry).__name__ for entry in entries})
    raise DataError(
        f"{name} must hold only numbers or only strings; got a mix of {', '.join(kinds)}. "
        "Remove missing entries and encode categories as numbers, or save the table as .csv."
    )


def is_dataset(value: object) -> bool:
    """Whether the value is indexed sample by sample, as a torch Dataset is."""
    if isinstance(value, str | bytes | dict | list | tuple):
        return False
    is_array = hasattr(value, "dtype") or hasattr(value, "dtypes")  # dtypes: a data frame
    return hasattr(value, "__getitem__") and hasattr(value, "__len__") and not is_array


def read_datasets(train: Any, val: Any = None, ids: object = None, source: object = None) -> Source:
    """A source from one Dataset, or from two; every item is read once, in order."""
    part = _with_names(_part(train), ids, source)
    return Source("data", part, None if val is None else _part(val))


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
