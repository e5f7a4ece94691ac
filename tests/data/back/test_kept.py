"""Samples from memory are kept in a file that is read as the same samples."""

import numpy as np
import pyarrow as pa
import pytest

from datassay.data import load
from datassay.data.back.origin import keep
from datassay.errors import DataError
from helpers.same_samples import same_samples

RNG = np.random.default_rng(0)
X, LABELS = RNG.normal(size=(40, 3)), np.repeat(["cat", "dog"], 20)


class Pairs:
    def __len__(self):
        return 40

    def __getitem__(self, i):
        if not 0 <= i < 40:
            raise IndexError
        return X[i], int(LABELS[i] == "dog")


def frame():
    pandas = pytest.importorskip("pandas")
    columns = {"a": X[:, 0], "kind": LABELS, "b": X[:, 1], "town": list("xy") * 20}
    return pandas.DataFrame(columns, index=[f"row {i}" for i in range(40)])


def cases():
    table = pa.table({"key": [f"k{i}" for i in range(40)], "a": X[:, 0], "b": X[:, 1], "y": LABELS})
    texts = np.array([f"word{'s' * (i % 5)} good bad {i}" for i in range(40)], object)
    return {
        "arrow": (lambda: table, {"ids": "key"}),
        "pandas": (frame, {"target": "kind", "source": "town"}),
        "frame and targets": (lambda: (frame()[["a", "b"]], frame()["kind"]), {}),
        "frame and two targets": (lambda: (frame()[["a", "b"]], X[:, :2]), {}),
        "arrays": (lambda: (X, LABELS), {"ids": np.arange(40) + 7, "source": LABELS}),
        "parts": (lambda: (X[:30], X[:30, 0], X[30:], X[30:, 0]), {}),
        "texts": (lambda: (texts, np.arange(40) % 2 == 0), {}),
        "Dataset": (Pairs, {}),
        "images": (lambda: (RNG.random((40, 4, 4)), LABELS), {}),
    }


@pytest.mark.parametrize("name", cases())
def test_the_file_is_read_as_the_same_samples(name, tmp_path):
    made, roles = cases()[name]
    data = made()
    path, how = keep(data, tmp_path, **roles)
    again = load(path, val_fraction=0.2, seed=3, **how)
    for kept, given in zip(again, load(data, val_fraction=0.2, seed=3, **roles), strict=True):
        # An archive of arrays names no columns, which a frame with several targets becomes.
        same_samples(kept, given, names=name != "frame and two targets")


def test_what_is_no_data_is_refused(tmp_path):
    with pytest.raises(DataError, match="to be kept; got a dict"):
        keep({"x": 1}, tmp_path)
