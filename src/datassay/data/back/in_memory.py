"""Data in memory given back: a frame or labels of the same kind, corrected."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, Shaped

from datassay.data.back.original import Change, Original, apply_change, find_donors, original_table
from datassay.data.memory.frames import frame_table, row_ids
from datassay.data.source import to_numpy
from datassay.data.tables.read import Choices
from datassay.optional import coalesce


def original_frame(frame: Any, choices: Choices) -> tuple[Original, list[Change]]:
    """Return a frame as data that can be given back, and a list that its `write` appends to.

    Args:
        frame: of pandas, polars, Arrow, or what `frame_table` reads.
        choices: how it was read.

    Returns:
        The data; `write` writes no file, but notes what becomes of the rows.
    """
    table = frame_table(frame)
    assert table is not None, "it was read as a frame"
    table, index_column = row_ids(table)
    ids = coalesce(choices.ids, index_column)
    changes: list[Change] = []
    original = original_table(
        Path("the frame"),
        table,
        replace(choices, ids=ids),
        lambda _source, _target, change: changes.append(change),
    )
    return original, changes


def correct_frame(frame: Any, change: Change) -> Any:
    """Return a frame with other labels in one column, and without the rows that go.

    Args:
        frame: of pandas or polars; of another library the result is an Arrow table.
        change: what becomes of its rows.

    Returns:
        A new frame; index, types and all other columns are those of `frame`.
    """
    kind = type(frame).__module__.partition(".")[0]
    rows = _find_label_rows(len(frame), change)
    if kind == "pandas":
        labels = frame[change.column].iloc[rows].set_axis(frame.index)
        return frame.assign(**{change.column: _replace_targets(labels, change)})[change.keep]
    if kind == "polars":
        labels = _replace_targets(frame[change.column][rows.tolist()], change)
        return frame.with_columns(labels).filter(change.keep.tolist())
    table = frame_table(frame)
    assert table is not None, "it was read as a frame"
    return apply_change(table, change)


def correct_labels(
    labels: Any,
    y: Shaped[np.ndarray, " n *k"],
    new_y: Shaped[np.ndarray, " n *k"],
    keep: Bool[np.ndarray, " n"],
    class_names: tuple[str, ...],
) -> Any:
    """Return corrected labels, without those of removed samples, of the kind that was given.

    Args:
        labels: [n], as given: an array, a tensor, a list or a series.
        y: of them, as `load` gives it.
        new_y: as decided.
        keep: [n], which samples stay.
        class_names: of the labels; empty: they are targets.
    """
    donors: dict[int, int] = {}
    targets: dict[int, float | str] = {}
    if class_names:
        donors = find_donors(y, np.where(keep, new_y, y), class_names)
    elif y.ndim == 1:  # of several targets none is given another value
        targets = {int(i): new_y[i].item() for i in np.flatnonzero(new_y != y)}
    change = Change("", 0, keep, donors, targets)  # no table: neither name nor index of a column
    rows = _find_label_rows(len(y), change)
    if hasattr(labels, "iloc"):
        return _replace_targets(labels.iloc[rows].set_axis(labels.index), change)[keep]
    return restore_kind(_replace_targets(to_numpy(labels, "y")[rows], change)[keep], labels)


def keep_inputs(x: Any, keep: Bool[np.ndarray, " n"]) -> Any:
    """Return the inputs of the samples kept, of the type in which they were given."""
    if hasattr(x, "iloc"):
        return x[keep]
    return restore_kind(to_numpy(x, "x")[keep], x)


def restore_kind(values: np.ndarray, example: Any) -> Any:
    """Return values as a tensor or a list if the example is one, else unchanged."""
    if hasattr(example, "new_tensor"):
        import torch

        tensor = torch.as_tensor(values, device=example.device)
        if tensor.is_floating_point() and not example.is_floating_point():
            return tensor  # whole numbers that became fractions stay these
        return tensor.to(example.dtype)
    if isinstance(example, list | tuple):
        return type(example)(values.tolist())
    return values


def _find_label_rows(n: int, change: Change) -> Int[np.ndarray, " rows"]:
    """Return for each row the row whose stored label it gets: itself, or its donor, [n]."""
    rows = np.arange(n)
    rows[list(change.donor)] = list(change.donor.values())
    return rows


def _replace_targets(column: Any, change: Change) -> Any:
    """Return an array, or a column of pandas or polars, with the new targets of `change`.

    Its type stays, unless it is one of integers that cannot hold the targets: then it is float64.
    """
    if not change.number:
        return column
    rows = [*change.number]
    targets = [*change.number.values()]
    type_name = str(column.dtype).lower().partition("[")[0]
    is_integer = "int" in type_name
    is_held = is_integer and _can_hold(targets, type_name)
    if is_held:
        targets = np.array([int(target) for target in targets], type_name)
    needs_floats = is_integer and not is_held
    if isinstance(column, np.ndarray) or hasattr(column, "iloc"):
        column = column.astype("float64") if needs_floats else column.copy()
        cells = column if isinstance(column, np.ndarray) else column.iloc
        cells[rows] = targets
        return column
    import polars

    if needs_floats:
        column = column.cast(polars.Float64)
    return column.scatter(rows, targets)


def _can_hold(targets: list[float | str], type_name: str) -> bool:
    """Return whether an integer type can hold all targets."""
    bounds = np.iinfo(type_name)
    numbers = [float(target) for target in targets]
    return all(n.is_integer() and bounds.min <= n <= bounds.max for n in numbers)
