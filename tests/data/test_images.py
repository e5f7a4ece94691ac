"""IDX folders and image folders round-trip; damaged files are named."""

import gzip
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import datassay as da
from datassay.data.formats.idx import read_idx
from datassay.errors import DataError

RNG = np.random.default_rng(0)
X, X_TEST = (RNG.integers(0, 256, (n, 4, 5), dtype=np.uint8) for n in (12, 4))
Y, Y_TEST = np.arange(12, dtype=np.uint8) % 3, np.arange(4, dtype=np.uint8) % 3
DATA = os.environ.get("DATASSAY_DATA")


def idx_bytes(values, code=8):
    sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
    return bytes([0, 0, code, values.ndim]) + sizes + values.tobytes()


def idx_folder(tmp_path, *, zipped=True, test=True):
    parts = {"train-images-idx3": X, "train-labels-idx1": Y}
    parts |= {"t10k-images-idx3": X_TEST, "t10k-labels-idx1": Y_TEST} if test else {}
    for name, values in parts.items():
        content = idx_bytes(values)
        path = tmp_path / (f"{name}-ubyte.gz" if zipped else f"{name}-ubyte")
        path.write_bytes(gzip.compress(content) if zipped else content)
    return tmp_path


@pytest.mark.parametrize("zipped", [True, False])
def test_idx_round_trip(tmp_path, zipped):
    train, val = da.load(idx_folder(tmp_path, zipped=zipped))
    assert (train.input_shape, train.kind, train.x.dtype) == ((1, 4, 5), "image", np.float32)
    assert np.array_equal(train.x[:, 0] * 255, X) and np.array_equal(val.x[:, 0] * 255, X_TEST)
    assert np.array_equal(train.y, Y) and np.array_equal(val.y, Y_TEST)
    assert train.class_names == ("0", "1", "2")


def test_idx_without_a_test_part_is_split(tmp_path):
    train, val = da.load(idx_folder(tmp_path, test=False), val_fraction=0.25)
    assert (len(train), len(val)) == (9, 3)


def test_idx_plain_beside_gz_is_one_set(tmp_path):
    idx_folder(tmp_path)
    idx_folder(tmp_path, zipped=False)
    assert len(da.load(tmp_path)[0]) == 12


def test_idx_other_number_types(tmp_path):
    path = tmp_path / "labels"
    path.write_bytes(idx_bytes(np.array([1, -300], dtype=">i4"), code=12))
    values = read_idx(path)
    assert values.tolist() == [1, -300] and values.dtype == np.int32


def damage(path, content):
    path.write_bytes(content)
    return path.name


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("train-images-idx3-ubyte.gz", lambda b: b[:-20], "cannot be read"),
        ("train-images-idx3-ubyte.gz", lambda b: b[:5], "cannot be read"),
        ("train-images-idx3-ubyte.gz", lambda b: b"", "must start as an IDX file"),
        ("t10k-labels-idx1-ubyte.gz", lambda b: b"no gzip", "cannot be read"),
        ("train-labels-idx1-ubyte.gz", lambda b: gzip.compress(b"abcdef"), "must start as an IDX"),
        (
            "train-labels-idx1-ubyte.gz",
            lambda b: gzip.compress(gzip.decompress(b)[:-1]),
            r"must hold 20 bytes for its shape \(12,\); got 19",
        ),
        (
            "train-images-idx3-ubyte.gz",
            lambda b: gzip.compress(idx_bytes(X[0])),
            "must hold bytes in 3 dimensions",
        ),
        (
            "train-labels-idx1-ubyte.gz",
            lambda b: gzip.compress(idx_bytes(Y[:-1])),
            "y must have one entry a sample; got 11 for 12",
        ),
        (
            "t10k-labels-idx1-ubyte.gz",
            lambda b: gzip.compress(idx_bytes(Y_TEST + 9)),
            "labels in y_val must lie among",
        ),
    ],
)
def test_damaged_idx(tmp_path, name, change, message):
    path = idx_folder(tmp_path) / name
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DataError, match=message):
        da.load(tmp_path)


def test_incomplete_idx_folders(tmp_path):
    idx_folder(tmp_path)
    (tmp_path / "t10k-images-idx3-ubyte.gz").unlink()
    with pytest.raises(DataError, match="images and labels must come together"):
        da.load(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").rename(tmp_path / "other-train-labels-idx1-ubyte")
    with pytest.raises(DataError, match="one data set; got other-train-labels"):
        da.load(tmp_path)
    for path in tmp_path.glob("*train-*"):
        path.rename(tmp_path / path.name.replace("train", "t10k"))
    with pytest.raises(DataError, match="must hold train-images"):
        da.load(tmp_path)


def image_folder(root, mode="L", n=3, size=(5, 4)):
    for shade, name in enumerate(("cat", "dog")):
        (root / name).mkdir(parents=True)
        for i in range(n):
            image = Image.new("RGB", size, (100 * shade + i, 0, 51)).convert(mode)
            image.save(root / name / f"{i}.png")
    return root


@pytest.mark.parametrize(
    ("mode", "channels"), [("L", 1), ("RGB", 3), ("RGBA", 3), ("1", 1), ("P", 3)]
)
def test_image_folder_round_trip(tmp_path, mode, channels):
    train, val = da.load(image_folder(tmp_path, mode), val_fraction=0.34)
    assert train.input_shape == (channels, 4, 5)
    assert (train.class_names, train.kind, train.x.dtype) == (("cat", "dog"), "image", np.float32)
    for part in (train, val):
        for x, y, name in zip(part.x, part.y, part.ids, strict=True):
            assert name.startswith(part.class_names[y] + "/")
            image = np.asarray(Image.open(tmp_path / name).convert("RGB" if channels == 3 else "L"))
            assert np.allclose(x * 255, image.reshape(4, 5, channels).transpose(2, 0, 1))


@pytest.mark.parametrize("name", ["val", "validation", "test"])
def test_image_folder_with_parts(tmp_path, name):
    image_folder(tmp_path / "train")
    image_folder(tmp_path / name, n=1)
    (tmp_path / "train" / "cat" / "notes.txt").write_text("no image")
    (tmp_path / "train" / ".cache").mkdir()
    train, val = da.load(tmp_path)
    assert (len(train), len(val)) == (6, 2)
    assert train.ids[0] == "train/cat/0.png" and val.ids[0] == f"{name}/cat/0.png"


def test_grey_among_colours_and_16_bits(tmp_path):
    image_folder(tmp_path, "RGB")
    Image.fromarray(np.full((4, 5), 65535, dtype=np.uint16)).save(tmp_path / "cat" / "deep.png")
    train, val = da.load(tmp_path, val_fraction=0.3)
    assert train.input_shape == (3, 4, 5)
    deep = np.concatenate([train.x, val.x])[np.concatenate([train.ids, val.ids]) == "cat/deep.png"]
    assert (deep == 1).all()


def test_image_sizes_that_differ(tmp_path):
    image_folder(tmp_path)
    Image.new("L", (7, 6)).save(tmp_path / "dog" / "wide.png")
    with pytest.raises(DataError, match=r"cat/\d\.png is 5×4, but 1 of 7 .*wide\.png with 7×6"):
        da.load(tmp_path, val_fraction=0.3)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names themselves")
def test_file_names_that_are_no_utf8(tmp_path):
    image_folder(tmp_path)
    (tmp_path / "cat" / "0.png").rename(os.fsdecode(bytes(tmp_path) + b"/cat/\xff.png"))
    with pytest.raises(DataError, match=r"names in UTF-8; got 'cat/\\udcff.png'. Rename"):
        da.load(tmp_path)


def test_float_images_are_refused(tmp_path):
    image_folder(tmp_path)
    Image.new("F", (5, 4)).save(tmp_path / "dog" / "float.tif")
    with pytest.raises(DataError, match="8 or 16 bits"):
        da.load(tmp_path, val_fraction=0.3)


@pytest.mark.parametrize("share", [0, 0.2, 0.6, 0.9])
def test_truncated_png(tmp_path, share):
    path = image_folder(tmp_path, size=(30, 30)) / "dog" / "1.png"
    Image.fromarray(RNG.integers(0, 256, (30, 30), dtype=np.uint8)).save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DataError, match=r"1\.png cannot be read"):
        da.load(tmp_path, val_fraction=0.34)


def test_too_large_an_image(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 2)
    with pytest.raises(DataError, match=r"0\.png is too large"):
        da.load(image_folder(tmp_path))


def test_folders_without_images(tmp_path):
    image_folder(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"every class folder must hold images.*empty"):
        da.load(tmp_path)
    (tmp_path / "train").mkdir()
    with pytest.raises(DataError, match="one folder a class"):
        da.load(tmp_path)


def test_one_class_folder(tmp_path):
    image_folder(tmp_path)
    for path in (tmp_path / "dog").iterdir():
        path.unlink()
    (tmp_path / "dog").rmdir()
    with pytest.raises(DataError, match="one class only, cat"):
        da.load(tmp_path)


@pytest.mark.real_data
@pytest.mark.skipif(DATA is None, reason="DATASSAY_DATA is not set")
def test_mnist():
    train, val = da.load(Path(DATA or "") / "mnist")
    assert (train.x.shape, val.x.shape) == ((60000, 1, 28, 28), (10000, 1, 28, 28))
    # Class counts and mean as the data's own page gives them.
    assert np.bincount(train.y).tolist() == [
        *(5923, 6742, 5958, 6131, 5842),
        *(5421, 5918, 6265, 5851, 5949),
    ]
    assert train.x.mean(dtype=np.float64) == pytest.approx(0.1307, abs=5e-5)


@pytest.mark.real_data
@pytest.mark.skipif(DATA is None, reason="DATASSAY_DATA is not set")
def test_emnist_archive():
    train, val = da.load(Path(DATA or "") / "emnist" / "emnist_mnist_test.npz")
    assert np.bincount(train.y).tolist() == [800] * 10
    assert np.bincount(val.y).tolist() == [200] * 10
