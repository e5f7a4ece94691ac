"""Samples given as frames, arrays, tensors or Datasets become a SampleSet; nothing is split off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from datassay.data.assemble import one_set
from datassay.data.memory.arrays import is_dataset, read_arrays, read_datasets, to_numpy
from datassay.data.memory.frames import check_index, frame_table, plain_column, row_ids
from datassay.data.samples import SampleSet
from datassay.data.source import Source
from datassay.data.tables.read import Choices
from datassay.data.tables.sources import table_source
from datassay.data.targets import Coding
from datassay.errors import DataError


def read_in_memory(data: Any, ids: Any = None, source: Any = None) -> Source | None:
    """A source from (x, y) or (x, y, x_val, y_val), one or two Datasets; None of anything else."""
    parts = list(data) if isinstance(data, tuple | list) else []
    if isinstance(data, tuple) and len(parts) == 2 and all(is_dataset(p) for p in parts):
        return read_datasets(*parts, ids=ids, source=source)
    if isinstance(data, tuple) and len(parts) == 2 and hasattr(parts[0], "columns"):
        found = frame_with_targets(parts[0], parts[1], ids, source)
        return table_source(*found) if isinstance(found, tuple) else found
    if isinstance(data, tuple) or any(hasattr(p, "dtype") for p in parts):
        return read_arrays(parts, ids, source)
    if isinstance(data, list) or is_dataset(data):
        return read_datasets(data, ids=ids, source=source)
    return None


def frame_with_targets(
    x: Any, y: Any, ids: Any = None, source: Any = None
) -> tuple[pa.Table, str, Choices] | Source | None:
    """A data frame with its targets, ids and sources as columns of it, its name, and theirs."""
    # A source of arrays where there are several targets a sample; None where x is no frame.
    table = frame_table(x)
    if table is None:
        return None
    if ids is None:
        check_index(table)
    theirs = [getattr(part, "index", None) for part in (x, y)]
    if all(hasattr(index, "nlevels") for index in theirs) and not theirs[0].equals(theirs[1]):  # pyright: ignore[reportOptionalMemberAccess]
        raise DataError(
            "x and y must have the same index, since it says which row is which; theirs differ. "
            "Pass y.loc[x.index], or y.to_numpy() where the order is the same."
        )
    targets = to_numpy(y, "y") if hasattr(y, "detach") or getattr(y, "ndim", 1) > 1 else y
    if getattr(targets, "ndim", 1) > 1:
        if targets.shape[1] > 1:
            table, labels = row_ids(table)
            ids = table[labels].to_numpy() if ids is None and labels else ids
            return read_arrays((x, targets), ids, source)
        targets = targets[:, 0]
    names: dict[str, Any] = {}
    for role, values in (("target", targets), ("ids", ids), ("source", source)):
        if values is not None:
            name = str(getattr(values, "name", None) or role)
            names[role] = name if name not in table.column_names else f"{name} ({role})"
            values = values if role == "target" else to_numpy(values, role)
            if len(values) != len(table):
                what = "y" if role == "target" else role
                raise DataError(
                    f"{what} must have one entry a sample; got {len(values)} for {len(table)}."
                )
            table = table.append_column(names[role], plain_column(values, names[role]))
    return table, "data", Choices(**names)


def as_samples(
    value: Any, name: str, like: SampleSet | None = None, coding: Coding | None = None
) -> SampleSet | None:
    """All samples given as one set, a SampleSet as it is; None of what is neither."""
    # like: the training samples, whose task and classes these follow. coding: of y by a network's
    # outputs, where like is None.
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
        name_of = _target_of(like)
        target = name_of if name_of in table.column_names else None
        choices = Choices(target=target, keep=_columns(table, like))
        return one_set(table_source(table, name, choices), like, coding)
    source = read_in_memory(value)
    if source is None:
        return None
    if source.val is not None:
        raise DataError(
            f"{name} must be one Dataset; got two. Pass each as an argument of its own."
        )
    return one_set(source, like, coding)


def unlabelled(value: Any, name: str, like: SampleSet | None) -> SampleSet | None:
    """Inputs alone as a set whose targets are all 0; None where there are targets, or no inputs."""
    # value: an array or a tensor, [m, ...], or a frame without the target column of the training's.
    if (table := frame_table(value)) is not None:
        target = _target_of(like)
        if target is None or target in table.column_names:
            return None
        table = table.append_column(target, pa.array(np.zeros(len(table))))
        choices = Choices(target=target, keep=_columns(table, like))
        source = table_source(table, name, choices)
    elif hasattr(value, "dtype") and hasattr(value, "shape") and not hasattr(value, "dtypes"):
        x = to_numpy(value, name)
        source = read_arrays((x, np.zeros(len(x))))
    else:
        return None
    if like is None:
        return one_set(source, None, Coding(lambda x: (1, 1), is_own=True, is_training=False))
    true = None if like.true_y is None else np.zeros(len(like))
    return one_set(source, replace(like, class_names=(), y=np.zeros(len(like)), true_y=true))


def _target_of(like: SampleSet | None) -> str | None:
    """The name of the training's target column, where it was a table."""
    columns = () if like is None else like.columns
    return next((column.name for column in columns if column.read_as == "target"), None)


def _columns(table: pa.Table, like: SampleSet | None) -> tuple[str, ...]:
    """The columns that the samples before used, whatever our rules would say of these."""
    fitted = None if like is None else like.preparation
    names = [] if fitted is None else [column.name for column in fitted.columns]
    return tuple(name for name in names if name in table.column_names)
