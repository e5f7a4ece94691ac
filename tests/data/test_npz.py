"""Archives round-trip; pickled and damaged ones are refused."""

import numpy as np
import pytest

import datassay as da
from datassay.errors import DataError

X = np.arange(40, dtype=np.float32).reshape(20, 2)
Y = np.arange(20) % 2


def written(tmp_path, **arrays):
    path = tmp_path / "set.npz"
    np.savez(path, **arrays)
    return path


def test_round_trip(tmp_path):
    path = written(
        tmp_path, x=X, y=Y, x_val=X[:4], y_val=Y[:4], ids=Y + 2 * np.arange(20),
        class_names=["a", "b"],
    )  # fmt: skip
    train, val = da.load(str(path))
    assert np.array_equal(train.x, X) and np.array_equal(val.x, X[:4])
    assert np.array_equal(train.y, Y) and np.array_equal(val.y, Y[:4])
    assert train.ids.tolist() == (Y + 2 * np.arange(20)).tolist()
    assert (train.class_names, train.name) == (("a", "b"), "set")


def test_labels_may_repeat_the_class_names(tmp_path):
    names = np.array(["zebra", "ant"])
    train, _ = da.load(
        written(tmp_path, x=X, y=names[Y], x_val=X, y_val=names[Y], class_names=names)
    )
    assert train.class_names == ("zebra", "ant")
    assert np.array_equal(train.y, Y)


@pytest.mark.parametrize("key", ["x", "y", "ids", "class_names"])
def test_pickled_arrays_are_refused(tmp_path, key):
    path = written(tmp_path, **({"x": X, "y": Y} | {key: np.array([{}] * 20, dtype=object)}))
    with pytest.raises(DataError, match=rf"{key} in .*set\.npz .* pickled data is refused"):
        da.load(path)


@pytest.mark.parametrize(
    "write", [lambda to: np.array([{}], object).dump(to), lambda to: np.save(to, X)]
)
def test_a_pickle_and_a_bare_array_are_no_archives(tmp_path, write):
    with (tmp_path / "bare.npz").open("wb") as file:
        write(file)
    with pytest.raises(DataError, match=r"bare\.npz cannot be read.* bare arrays are refused"):
        da.load(tmp_path / "bare.npz")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X}, "y is missing"),
        ({"x": X, "y": Y, "x_val": X}, "y_val is missing"),
        ({"x": X, "y": Y, "y_val": Y}, "x_val is missing"),
        ({"x": X, "y": Y, "class_names": ["a"]}, "labels in y must lie among the 1 classes"),
        ({"x": X, "y": Y - 1, "class_names": ["a", "b"]}, "got -1"),
        ({"x": X, "y": np.full(20, np.datetime64("2024-01-01"))}, "y must hold numbers"),
    ],
)
def test_what_is_refused(tmp_path, arrays, message):
    with pytest.raises(DataError, match=message):
        da.load(written(tmp_path, **arrays))
