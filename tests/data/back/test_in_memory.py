"""Data in memory given back: equal to what was given in every cell but those decided on."""

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from datassay.data.back.in_memory import (
    _can_hold,
    correct_frame,
    correct_labels,
    keep_inputs,
    original_frame,
    restore_kind,
)
from datassay.data.back.original import Change
from datassay.data.tables.read import Choices
from datassay.errors import DataError
from helpers.arrow import needs_views

KEEP = np.array([True, True, False, True, True])
FRAMES = {
    "pandas": lambda table: table.to_pandas().set_axis([*"vwxyz"]),
    "polars": pl.from_arrow,
    "Arrow": lambda table: table,
}
LABELS = {
    "array": np.asarray, "tensor": torch.as_tensor, "list": np.ndarray.tolist,
    "tuple": lambda y: tuple(y.tolist()), "series": lambda y: pd.Series(y, [*"vwxyz"]),
}  # fmt: skip


def cells(frame):
    """Columns as lists of Python values, whichever library holds them."""
    if isinstance(frame, pd.DataFrame):
        return frame.to_dict("list")
    return frame.to_dict(as_series=False) if isinstance(frame, pl.DataFrame) else frame.to_pydict()


@pytest.mark.parametrize("value", [7, 2.5, 300.0])
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float32", "float64"])
def test_new_targets_are_given_back_as_they_are_and_all_else_as_it_was(dtype, value):
    y = np.arange(0, 15, 3, dtype)
    expected = [0, value, 9, 12]
    is_held = dtype[0] == "f" or (value != 2.5 and not (dtype == "int8" and value == 300))
    change = Change("y", 1, KEEP, {}, {1: value})
    for kind, make in FRAMES.items():
        table = pa.table({"x": [0.5, 1.5, 2.5, 3.5, 4.5], "y": y, "z": [*"abcde"]})
        frame = make(table)
        if kind == "Arrow" and not is_held:
            with pytest.raises(DataError, match="must hold its new targets"):
                correct_frame(frame, change)
            continue
        result = correct_frame(frame, change)
        assert cells(result) == {"x": [0.5, 1.5, 3.5, 4.5], "y": expected, "z": [*"abde"]}, kind
        assert kind == "Arrow" or (result["y"].dtype == frame["y"].dtype) == is_held, kind
        assert cells(frame) == cells(make(table))
    new_y = y.astype(float)
    new_y[1] = value
    for kind, make in LABELS.items():
        given = make(y.copy())
        result = correct_labels(given, y.astype(float), new_y, KEEP, ())
        assert type(result) is type(given) and list(map(float, result)) == expected, kind
        assert list(given) == list(make(y)), kind
        if kind not in {"list", "tuple"}:
            assert (result.dtype == given.dtype) == is_held, kind


@pytest.mark.parametrize("kind", [*LABELS, "frame"])
@pytest.mark.parametrize("dtype", ["int8", "float16", "float64", "bool"])
def test_inputs_that_stay_are_of_the_kind_they_were(kind, dtype):
    x = np.arange(10).reshape(5, 2).astype(dtype)
    make = {"series": lambda x: pd.Series([*x]), "frame": pd.DataFrame}.get(
        kind, LABELS[kind] if kind in LABELS else None
    )
    inputs = make(x)
    rest = keep_inputs(inputs, KEEP)
    assert type(rest) is type(inputs) and np.array_equal(np.stack([*np.asarray(rest)]), x[KEEP])
    if kind in {"array", "tensor", "series"}:
        assert rest.dtype == inputs.dtype


@pytest.mark.parametrize("kind", ["pandas", pytest.param("polars", marks=needs_views)])
def test_a_frame_is_corrected_by_its_own_ids_or_those_of_its_rows(kind):
    names = [*"vwxyz"]
    columns = {"x": np.arange(5.0), "who": [*"abcde"], "y": ["no", "yes", "no", None, "yes"]}
    frame = pd.DataFrame(columns, names) if kind == "pandas" else pl.DataFrame(columns)
    of_rows = [*"vwxz"] if kind == "pandas" else [0, 1, 2, 4]
    for choices, ids in ((Choices("y", ids="who"), [*"abce"]), (Choices("y"), of_rows)):
        original, noted = original_frame(frame, choices)
        assert original.ids.tolist() == ids and original.y.tolist() == [0, 1, 0, 1]
        keep, y = np.array([True, True, False, True]), np.array([0, 0, 0, 1])
        original.write(Path(), keep, y)
        after = cells(correct_frame(frame, noted[0]))
        assert after["who"] == [*"abde"] and after["x"] == [0, 1, 3, 4]
        assert [*after["y"][:2], after["y"][3]] == ["no", "no", "yes"] and pd.isna(after["y"][2])


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_classes_are_given_back_as_they_are_written(kind):
    written = (
        np.array([7, 3, 7, 3, 9]) if kind == "tensor" else np.array(["no", "yes", "no", "yes", "x"])
    )
    y, new_y = np.array([0, 1, 0, 1, 2]), np.array([1, 1, 5, 2, 0])  # what goes has any label
    given = LABELS[kind](written)
    result = correct_labels(given, y, new_y, KEEP, ("a", "b", "c"))
    expected = written[[1, 1, 4, 0]].tolist()
    assert type(result) is type(given) and [*result] == expected


def test_a_tensor_keeps_its_type_but_where_whole_numbers_become_fractions():
    for example, values, kind in (
        (torch.zeros(2), [1.5, 2.0], torch.float32), (torch.zeros(2).int(), [3, 4], torch.int32),
        (torch.zeros(2).int(), [1.5, 2.0], torch.float64), (torch.zeros(2), [3, 4], torch.float32),
    ):  # fmt: skip
        tensor = restore_kind(np.array(values), example)
        assert tensor.dtype == kind and tensor.tolist() == values
    assert restore_kind(np.array([1, 2]), (3, 4)) == (1, 2)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "uint32"])
def test_targets_are_held_by_integers_where_they_come_back(kind):
    for end in (np.iinfo(kind).min, np.iinfo(kind).max):
        for target in (end - 1, end, end + 1, end - 0.5, 7.0):
            is_same = float(np.array([target]).astype("int64").astype(kind)[0]) == target
            assert _can_hold([1.0, target], kind) == is_same
