"""What is printed of a result: one line, arrays by their shape."""

import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pyarrow as pa
import pytest
import torch

import datassay as da
from datassay.results import (
    Meaning,
    Tabular,
    column,
    columns_of,
    field_names,
    meaning_of,
    result,
    sample_ids,
    table_of,
)


@result
class Made:
    """Of every kind of value."""

    matrix: np.ndarray
    tensor: torch.Tensor
    number: float
    scalar: np.ndarray
    words: str
    parts: dict
    several: tuple
    nothing: None = None


def made(words="few"):
    parts = {"a": np.zeros(3), "b": 2}
    arrays = np.zeros((2, 3)), torch.zeros(4, dtype=torch.float32)
    return Made(*arrays, 0.5, np.array(7), words, parts, (np.zeros(1), np.zeros(2)))


def test_arrays_are_told_by_type_and_shape():
    assert repr(made()) == (
        "Made(matrix=float64[2, 3], tensor=float32[4], number=0.5, scalar=7, words='few', "
        "parts={'a': float64[3], 'b': 2}, several=tuple of 2, nothing=None)"
    )


def test_long_texts_are_cut_and_stay_in_the_line():
    told = repr(made("line\n" * 100))
    assert "\n" not in told and "…" in told
    assert len(told) < 300


def test_a_result_is_frozen_and_only_equal_to_itself():
    one = made()
    with pytest.raises(FrozenInstanceError):
        one.number = 1.0
    assert one == one and one != made()
    assert replace(one, number=2.0).number == 2.0
    assert pickle.loads(pickle.dumps(one)).number == 0.5
    assert field_names(one) == field_names(Made)
    assert field_names(Made)[:3] == ("matrix", "tensor", "number")


def test_what_a_notebook_prints_fits_a_screen():
    train, val = da.load("iris")
    lin = da.collect(da.build_model("mlp:width=8", train), train, val)
    for found in (train, lin, da.leave_one_out(lin), da.attribution(lin), da.label_issues(lin)):
        assert len(repr(found)) < 1000
        assert "array(" not in repr(found) and "tensor(" not in repr(found)


@result
class Scored(Tabular):
    """Two columns, one of them under another name in a table of all scores."""

    error: np.ndarray = column("standard error", unit="nats", joint="scored_error")
    group: np.ndarray = column(
        "equal samples", name="number", values=lambda one: pa.array(one.group, mask=one.group < 0)
    )
    several: np.ndarray = column("outputs", sign="high: surer", joint="")
    ids: np.ndarray = sample_ids()
    total: float = 0.0


def test_a_result_declares_its_columns_once():
    ids = np.array(["a", "b"])
    one = Scored(np.array([0.5, 2.0]), np.array([-1, 3]), np.eye(2), ids)
    table = one.to_table()
    assert table.to_pylist() == [
        {"id": "a", "error": 0.5, "number": None, "several": [1.0, 0.0]},
        {"id": "b", "error": 2.0, "number": 3, "several": [0.0, 1.0]},
    ]
    assert meaning_of(table.schema.field("error")) == Meaning("standard error", "nats")
    assert list(columns_of(Scored)) == table.column_names
    assert list(columns_of(Scored, joint=True)) == ["id", "scored_error", "number"]
    both = table_of(one, None, replace(one, error=np.zeros(2)), joint=True)
    assert both["scored_error"].to_pylist() == [0.5, 2.0]  # of the first that has it
