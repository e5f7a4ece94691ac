"""A digest of what was read."""

import hashlib
import os

import numpy as np
import pyarrow as pa
import pytest

from datassay.data import load
from datassay.data.back.origin import keep, source_digest
from datassay.errors import DataError
from helpers.same_samples import same_samples


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "photos"
    for name in ("dog/2.png", "cat/1.png", "cat/deep/3.png"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


def test_a_file_is_its_bytes(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"x,y\r\n1,2\r\n")
    assert source_digest(path) == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_folder_is_the_same_wherever_it_lies(folder, tmp_path):
    before = source_digest(folder)
    moved = folder.rename(tmp_path / "elsewhere")
    (moved / ".hidden").write_text("no data")
    (moved / ".cache").mkdir()
    (moved / ".cache" / "file").write_text("no data")
    assert source_digest(moved) == before


@pytest.mark.parametrize("change", ["bytes", "name", "class", "gone", "new"])
def test_every_change_of_a_folder_tells(folder, change):
    before, file = source_digest(folder), folder / "cat/1.png"
    if change == "bytes":
        file.write_text("other")
    elif change == "name":
        file.rename(folder / "cat/4.png")
    elif change == "class":
        file.rename(folder / "dog/1.png")
    elif change == "gone":
        file.unlink()
    else:
        (folder / "cat/0.png").write_text("")
    assert source_digest(folder) != before


def test_linked_folders_are_read_once(folder):
    before = source_digest(folder)
    (folder / "cat" / "up").symlink_to(folder, target_is_directory=True)
    assert source_digest(folder) == before
    other = folder.parent / "linked"
    other.mkdir()
    for name in ("cat", "dog"):
        (other / name).symlink_to(folder / name, target_is_directory=True)
    os.unlink(folder / "cat" / "up")
    assert source_digest(other) == before


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="must be a file"):
        source_digest(tmp_path)


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
        "frames in parts": (
            lambda: (frame()[["a", "b"]][:30], LABELS[:30], frame()[["a", "b"]][30:], LABELS[30:]),
            {},
        ),
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
        # An archive of arrays names no columns, which such frames become.
        same_samples(kept, given, names=name not in {"frame and two targets", "frames in parts"})


def test_what_is_no_data_is_refused(tmp_path):
    with pytest.raises(DataError, match="to be stored; got a dict"):
        keep({"x": 1}, tmp_path)
