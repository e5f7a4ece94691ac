"""Functions that take samples take arrays, tensors and Datasets as well, and split nothing off."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import nn

import datassay as da
from datassay.act import removal_curve, reweight
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import DataError
from datassay.train import retrain

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 4)).astype(np.float32)
Y = np.arange(30) % 3
X_VAL, Y_VAL = X[:7] + 1, Y[:7]


@checks_arguments
def taken(train: SampleSet, val: SampleSet | None = None):
    """What a public function is given."""
    return train, val


def network(k=3):
    torch.manual_seed(0)
    return nn.Linear(4, k)


@pytest.mark.parametrize(
    ("labels", "wanted", "coded"),
    [
        (np.array(["cat", "dog", "eel"]), ["eel", "dog"], [2, 1]),
        (np.array([3, 5, 7]), [7, 5], [2, 1]),
        (np.array([1.0, 2.0, 3.0]), [3.0, 2.0], [2, 1]),
        (np.array(["cat", "dog", "eel"]), [2, 0], [2, 0]),  # indices
        (np.array([False, True, True]), np.array([True, False]), [1, 0]),
        (np.linspace(0, 1, 30), [1, 2], [1.0, 2.0]),  # a regression stays one
    ],
)
def test_a_second_set_is_coded_with_the_classes_of_the_first(labels, wanted, coded):
    y = labels[Y] if len(labels) == 3 else labels
    train, val = taken((X, y), (X[:2], wanted))
    assert taken(train)[0] is train
    assert taken([X, y])[0].y.tolist() == taken((X.tolist(), y.tolist()))[0].y.tolist()
    assert val.class_names == train.class_names and val.y.tolist() == coded
    assert taken(train, (X[:2], wanted))[1].y.tolist() == coded


def test_inputs_without_rows_are_refused_before_a_network_sees_them():
    for data in ((X[:, 0], Y), (X[:, 0], Y.astype(float))):
        for call in (lambda s: da.collect(network(), s), lambda s: da.influence(network(), s)):
            with pytest.raises(DataError, match=r"x must be \[n, \.\.\.\], one row per sample"):
                call(data)


@pytest.mark.parametrize(
    "call",
    [
        lambda *sets: da.leave_one_out(da.collect(network(), *sets)).prediction_change,
        lambda *sets: da.influence(network(), *sets).effect,
        lambda train, _: da.influence_moments(network(), train, ridge=0.1).variance,
        lambda train, _: da.removal_effects(network(), train, ridge=0.1).effect,
        lambda *sets: da.purify(network(), *sets, max_fraction=0.1).removed,
        lambda train, _: da.partition(network(), train, n_blocks=1, restarts=1).block,
        lambda *sets: reweight(network(), *sets, n_neighbors=5, solver="exact").weights,
        lambda *sets: retrain(network(), *sets, lr=0.1, steps=2, removed=[0]).outputs,
        lambda *sets: removal_curve([network()], *sets, {"order": np.arange(30)}).score,
        lambda train, _: da.build_model("linear", train)(torch.tensor(X)).detach(),
        lambda train, _: da.add_label_noise(train, 0.2).y,
    ],
)
def test_public_functions_take_pairs(call):
    sets = da.load((X, Y, X_VAL, Y_VAL))
    np.testing.assert_array_equal(call((X, Y), (X_VAL, Y_VAL)), call(*sets))


@pytest.mark.parametrize(
    ("train", "val", "message"),
    [
        (X, None, "train must be a SampleSet, a pair .* got a ndarray"),
        ("digits", None, "train must be a SampleSet, a pair .* got 'digits'"),
        (da.load((X, Y)), None, "train must be one set of samples; got a tuple of them"),
        ((X, Y, X, Y), None, "train must be one pair .*; got 4 values"),
        ((X, Y), (X, Y + 1), r"labels in y must lie among the 3 classes \(0, 1, 2\); got 3"),
        ((X, Y), (X, [["a"]] * 30), "must name its classes|must lie among"),
        ((np.array(["some", "text"] * 15), Y), None, "x must hold numbers here; got texts"),
    ],
)
def test_what_is_no_set_is_one_line(train, val, message):
    with pytest.raises(DataError, match=message):
        taken(train, val)


def speaks(protocol):
    """A data frame as its library hands it on: by one protocol alone."""
    return lambda table: SimpleNamespace(
        columns=table.column_names, **{protocol: getattr(table, protocol)}
    )


@pytest.mark.parametrize(
    "as_frame", [lambda table: table, speaks("__dataframe__"), speaks("__arrow_c_stream__")]
)
def test_load_takes_data_frames(as_frame):
    names = np.array(["a", "b", "c"])
    table = pa.table({"key": np.arange(100, 130), "y": names[Y], "u": X[:, 0], "v": X[:, 1]})
    train, val = da.load(as_frame(table), target="y", ids="key", val_fraction=0.2)
    assert train.feature_names == ("u", "v") and train.class_names == ("a", "b", "c")
    assert sorted([*train.ids, *val.ids]) == list(range(100, 130))
    with pytest.raises(DataError, match="target must name a column of data; got 'z'"):
        da.load(as_frame(table), target="z")
