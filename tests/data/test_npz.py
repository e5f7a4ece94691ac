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
        tmp_path,
        x=X,
        y=Y,
        x_val=X[:4],
        y_val=Y[:4],
        ids=Y + 2 * np.arange(20),
        class_names=["a", "b"],
    )
    train, val = da.load(str(path))
    assert np.array_equal(train.x, X) and np.array_equal(val.x, X[:4])
    assert np.array_equal(train.y, Y) and np.array_equal(val.y, Y[:4])
    assert train.ids.tolist() == (Y + 2 * np.arange(20)).tolist()
    assert (train.class_names, train.name) == (("a", "b"), "set")


def test_only_x_and_y(tmp_path):
    train, val = da.load(written(tmp_path, x=X, y=Y))
    assert (len(train), len(val)) == (16, 4)
    assert np.array_equal(train.x, X[train.ids])


def test_labels_may_repeat_the_class_names(tmp_path):
    names = np.array(["zebra", "ant"])
    train, _ = da.load(
        written(tmp_path, x=X, y=names[Y], x_val=X, y_val=names[Y], class_names=names)
    )
    assert train.class_names == ("zebra", "ant")
    assert np.array_equal(train.y, Y)


def test_arrays_it_does_not_need_are_not_read(tmp_path):
    path = written(tmp_path, x=X, y=Y, notes=np.array([{}], dtype=object))
    assert len(da.load(path)[0]) == 16


@pytest.mark.parametrize("key", ["x", "y", "ids", "class_names"])
def test_pickled_arrays_are_refused(tmp_path, key):
    path = written(tmp_path, **({"x": X, "y": Y} | {key: np.array([{}] * 20, dtype=object)}))
    with pytest.raises(DataError, match=rf"{key} in .*set\.npz .* pickled data is refused"):
        da.load(path)


def test_a_pickle_file_is_refused(tmp_path):
    path = tmp_path / "bare.npz"
    np.array([{}], dtype=object).dump(path)
    with pytest.raises(
        DataError, match=r"bare\.npz cannot be read.* Pickled data and bare arrays are refused"
    ):
        da.load(path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X}, "y is missing"),
        ({"x": X, "y": Y, "x_val": X}, "y_val is missing"),
        ({"x": X, "y": Y, "y_val": Y}, "x_val is missing"),
        ({"x": X, "y": Y, "class_names": ["a"]}, "labels in y must lie among the 1 classes"),
        ({"x": X, "y": Y - 1, "class_names": ["a", "b"]}, "got -1"),
        ({"x": X, "y": Y, "class_names": ["a", "a"]}, "class names must differ"),
        ({"x": X, "y": Y, "ids": Y}, "ids must be unique"),
        ({"x": X, "y": np.full(20, np.datetime64("2024-01-01"))}, "y must hold numbers"),
    ],
)
def test_what_is_refused(tmp_path, arrays, message):
    with pytest.raises(DataError, match=message):
        da.load(written(tmp_path, **arrays))


@pytest.mark.parametrize("share", [0, 0.01, 0.3, 0.7, 0.99])
def test_truncated(tmp_path, share):
    path = written(tmp_path, x=X, y=Y)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DataError, match=r"set\.npz cannot be read"):
        da.load(path)


def test_flipped_bytes_never_raise_anything_else(tmp_path):
    path = tmp_path / "set.npz"
    np.savez_compressed(path, x=X, y=Y)
    content = bytearray(path.read_bytes())
    rng = np.random.default_rng(0)
    for position in rng.integers(0, len(content), 200):
        damaged = content.copy()
        damaged[position] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        try:
            da.load(path)
        except DataError as error:
            assert "set.npz" in str(error)


def test_a_bare_array_is_no_archive(tmp_path):
    with open(tmp_path / "set.npz", "wb") as file:
        np.save(file, X)
    with pytest.raises(DataError, match="bare arrays are refused"):
        da.load(tmp_path / "set.npz")
