"""Frames, arrays, tensors and Datasets become one source, or one SampleSet without a split."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from datassay.data.assemble import one_set
from datassay.data.memory.frames import check_index, frame_table, plain_column, row_ids
from datassay.data.pictures import SHADES, background_warning, choose_background, pixels, shown_size
from datassay.data.samples import Column, SampleSet
from datassay.data.source import Source, SourcePart, to_numpy
from datassay.data.tables.read import Choices
from datassay.data.tables.sources import table_source
from datassay.data.targets import Coding
from datassay.errors import DataError, DatassayError
from datassay.optional import take_first


def read_in_memory(data: Any, ids: Any = None, source: Any = None) -> Source | None:
    """Return the source of (x, y), (x, y, x_val, y_val) or Datasets; None for other values."""
    parts = []
    if isinstance(data, tuple | list):
        parts = list(data)
    if isinstance(data, tuple) and len(parts) == 2 and all(is_dataset(p) for p in parts):
        return read_datasets(*parts, ids=ids, source=source)
    if isinstance(data, tuple) and len(parts) == 2 and hasattr(parts[0], "columns"):
        result = frame_with_targets(parts[0], parts[1], ids, source)
        if isinstance(result, tuple):
            return table_source(*result)
        return result
    if isinstance(data, tuple) or any(hasattr(p, "dtype") for p in parts):
        return read_arrays(parts, ids, source)
    if isinstance(data, list) or is_dataset(data):
        return read_datasets(data, ids=ids, source=source)
    return None


def frame_with_targets(
    x: Any, y: Any, ids: Any = None, source: Any = None
) -> tuple[pa.Table, str, Choices] | Source | None:
    """Return (table, name, choices) with y, ids and sources as columns; None if x is no frame."""
    # With several targets per sample, a source of arrays; None where x is no frame.
    table = frame_table(x)
    if table is None:
        return None
    if ids is None:
        check_index(table)
    indices: list[Any] = [getattr(values, "index", None) for values in (x, y)]
    if all(hasattr(index, "nlevels") for index in indices) and not indices[0].equals(indices[1]):
        raise DataError(
            "x and y must have the same index, since it says which row is which; theirs differ. "
            "Pass y.loc[x.index], or y.to_numpy() where the order is the same."
        )
    targets = y
    if hasattr(y, "detach") or getattr(y, "ndim", 1) > 1:
        targets = to_numpy(y, "y")
    if getattr(targets, "ndim", 1) > 1:
        if targets.shape[1] > 1:
            table, index_column = row_ids(table)
            if ids is None and index_column:
                ids = table[index_column].to_numpy()
            return read_arrays((x, targets), ids, source)
        targets = targets[:, 0]
    table, names = _append_columns(table, target=targets, ids=ids, source=source)
    return table, "data", Choices(**names)


def _append_columns(table: pa.Table, **columns: Any) -> tuple[pa.Table, dict[str, Any]]:
    """Return the table with a column for each role that is not None, and their names by role."""
    names: dict[str, Any] = {}
    for role, values in columns.items():
        if values is None:
            continue
        names[role] = str(getattr(values, "name", None) or role)
        if names[role] in table.column_names:
            names[role] += f" ({role})"
        if role != "target":
            values = to_numpy(values, role)
        if len(values) != len(table):
            noun = "y" if role == "target" else role
            raise DataError(
                f"{noun} must have one entry per sample; got {len(values)} for {len(table)}."
            )
        table = table.append_column(names[role], plain_column(values, names[role]))
    return table, names


def as_samples(
    value: Any, name: str, reference: SampleSet | None = None, coding: Coding | None = None
) -> SampleSet | None:
    """Return a value as a SampleSet; None if it is no data in memory."""
    # reference: training samples, whose task, classes and columns count. coding: without it, how y
    # follows a network's outputs.
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
    if (table := frame_table(value)) is not None:
        check_index(table)
        target_name = _find_target(reference)
        target = None
        if target_name in table.column_names:
            target = target_name
        choices = Choices(
            target=target, keep=_select_used(table, reference), earlier=_map_columns(reference)
        )
        return one_set(table_source(table, name, choices), reference, coding)
    source = read_in_memory(value)
    if source is None:
        return None
    if source.val is not None:
        raise DataError(
            f"{name} must be one Dataset; got two. Pass each as an argument of its own."
        )
    return one_set(source, reference, coding)


def read_unlabelled(value: Any, name: str, reference: SampleSet | None) -> SampleSet | None:
    """Return inputs without targets as a set with y = 0; None if they have targets."""
    # value: an array or a tensor, [m, ...], or a frame without the training's target column.
    if (table := frame_table(value)) is not None:
        target = _find_target(reference)
        if target is None or target in table.column_names:
            return None
        table = table.append_column(target, pa.array(np.zeros(len(table))))
        choices = Choices(
            target=target, keep=_select_used(table, reference), earlier=_map_columns(reference)
        )
        source = table_source(table, name, choices)
    elif hasattr(value, "dtype") and hasattr(value, "shape") and not hasattr(value, "dtypes"):
        x = to_numpy(value, name)
        source = read_arrays((x, np.zeros(len(x))))
    else:
        return None
    if reference is None:
        return one_set(source, None, Coding(lambda x: (1, 1), is_own=True, is_training=False))
    zeros = np.zeros(len(reference))
    reference = replace(reference, class_names=(), y=zeros, true_y=None)  # targets are numbers
    return one_set(source, reference)


def _find_target(reference: SampleSet | None) -> str | None:
    """Return the name of the training table's target column; None if it was no table."""
    columns = ()
    if reference is not None:
        columns = reference.columns
    return next((column.name for column in columns if column.read_as == "target"), None)


def _map_columns(reference: SampleSet | None) -> dict[str, Column]:
    """Return column name → how the training's column was read."""
    if reference is None:
        return {}
    return {column.name: column for column in reference.columns}


def _select_used(table: pa.Table, reference: SampleSet | None) -> tuple[str, ...]:
    """Return names of the table's columns that are features of the training."""
    if reference is None or reference.preparation is None:
        return ()
    names = [column.name for column in reference.preparation.columns]
    return tuple(name for name in names if name in table.column_names)


def read_arrays(arrays: Sequence[Any], ids: object = None, source: object = None) -> Source:
    """Return the source of (x, y) or (x, y, x_val, y_val)."""
    if len(arrays) not in {2, 4}:
        raise DataError(
            f"arrays must be (x, y) or (x, y, x_val, y_val); got {len(arrays)} of them. "
            "Pass two or four."
        )
    names = ("x", "y", "x_val", "y_val")
    values = [to_numpy(value, name) for value, name in zip(arrays, names, strict=False)]
    train, *val = (SourcePart(*pair) for pair in zip(values[::2], values[1::2], strict=True))
    columns = tuple(str(column) for column in getattr(arrays[0], "columns", ()))
    train = add_arrays(train, ids=ids, source=source)
    return Source("data", train, take_first(val), feature_names=columns)


def add_arrays(raw: SourcePart, **fields: object) -> SourcePart:
    """Return samples with other values of some fields, such as ids; None: left unchanged."""
    arrays: dict[str, Any] = {n: to_numpy(v, n) for n, v in fields.items() if v is not None}
    return replace(raw, **arrays)


def is_dataset(value: object) -> bool:
    """Return whether the value is indexed sample by sample, as a torch Dataset is."""
    if isinstance(value, str | bytes | dict | list | tuple):
        return False
    is_array = hasattr(value, "dtype") or hasattr(value, "dtypes")  # dtypes: a data frame
    return hasattr(value, "__getitem__") and hasattr(value, "__len__") and not is_array


def read_datasets(train: Any, val: Any = None, ids: object = None, source: object = None) -> Source:
    """Return the source of one Dataset, or of two; read every item once, in order."""
    pairs = [_read_pairs(dataset) for dataset in (train, val) if dataset is not None]
    sizes = [shown_size(x.copy()) for items in pairs for x, _ in items if is_picture(x)]
    background = choose_background(sizes)
    train_part, *val_parts = [_stack_pairs(items, background) for items in pairs]
    train_part = add_arrays(train_part, ids=ids, source=source)
    warnings = background_warning(sizes, background)
    return Source("data", train_part, take_first(val_parts), warnings=warnings)


def _read_pairs(dataset: Any) -> list[tuple[Any, np.ndarray]]:
    """Return [(x, y)] of all items of a Dataset, in order."""
    n = _call_user_code(lambda: len(dataset), "its length")
    pairs = [_check_pair(_call_user_code(lambda i=i: dataset[i], f"item {i}"), i) for i in range(n)]
    if not pairs:
        raise DataError("the Dataset must hold at least 2 samples; got none. Check its length.")
    return pairs


def _stack_pairs(pairs: list[tuple[Any, np.ndarray]], background: str) -> SourcePart:
    """Return (x, y) pairs as one part, [n, ...]; `background` shows in transparent images."""
    shade = SHADES[background or "white"]
    x = [pixels(x, shade) if is_picture(x) else x for x, _ in pairs]
    return SourcePart(_stack(x, "x"), _stack([y for _, y in pairs], "y"))


def _call_user_code(read: Callable[[], Any], subject: str) -> Any:
    """Return what a user's Dataset gives; raise DataError if its code fails."""
    try:
        return read()
    except DatassayError:
        raise
    except Exception as error:
        message = "no message"
        if str(error):
            message = str(error).splitlines()[0][:200]
        raise DataError(
            f"the Dataset must give each of its samples; {subject} raised {type(error).__name__}: "
            f"{message}. Correct it, or leave that sample out."
        ) from error


def is_picture(value: Any) -> bool:
    """Return whether a value is an image of Pillow."""
    return hasattr(value, "getbands")


def _check_pair(item: Any, i: int) -> tuple[Any, np.ndarray]:
    """Return item i of a Dataset as (x, y); x is a Pillow image or an array."""
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise DataError(
            f"a Dataset must yield pairs (x, y); item {i} is a {type(item).__name__}"
            f"{f' of {len(item)}' if hasattr(item, '__len__') else ''}. Wrap it in one that does."
        )
    x, y = item
    if not is_picture(x):
        x = to_numpy(x, "x")
    return x, to_numpy(y, "y")


def _stack(arrays: list[np.ndarray], name: str) -> np.ndarray:
    """Return arrays of one shape as one array, [n, ...]."""
    for i, array in enumerate(arrays):
        if array.shape != arrays[0].shape:
            raise DataError(
                f"every {name} of a Dataset must have one shape; item 0 has {arrays[0].shape}, "
                f"item {i} has {array.shape}. Resize, crop or pad in the Dataset's transform."
            )
    if arrays[0].ndim == 0 and arrays[0].dtype.kind in "UO":
        return np.array([str(array) for array in arrays], dtype=object)  # each as long as it is
    return np.stack(arrays)
