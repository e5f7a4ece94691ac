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
    assert len(da.load(idx_folder(tmp_path, zipped=not zipped))[0]) == 12  # one set, stored twice


def test_idx_other_number_types(tmp_path):
    path = tmp_path / "labels"
    path.write_bytes(idx_bytes(np.array([1, -300], dtype=">i4"), code=12))
    values = read_idx(path)
    assert values.tolist() == [1, -300] and values.dtype == np.int32


X_FILE, Y_FILE = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"
Y_TEST_FILE = "t10k-labels-idx1-ubyte.gz"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (X_FILE, lambda b: b[:-20], "cannot be read"),
        (X_FILE, lambda b: b[:5], "cannot be read"),
        (X_FILE, lambda b: b"", "must start as an IDX file"),
        (Y_TEST_FILE, lambda b: b"no gzip", "cannot be read"),
        (Y_FILE, lambda b: gzip.compress(b"abcdef"), "must start as an IDX"),
        (Y_FILE, lambda b: gzip.compress(gzip.decompress(b)[:-1]), r"20 bytes .*\(12,\); got 19"),
        (X_FILE, lambda b: gzip.compress(idx_bytes(X[0])), "must hold bytes in 3 dimensions"),
        (Y_FILE, lambda b: gzip.compress(idx_bytes(Y[:-1])), "one entry per sample; got 11 for 12"),
        (Y_TEST_FILE, lambda b: gzip.compress(idx_bytes(Y_TEST + 9)), "in y_val must lie among"),
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


def test_broken_images_are_counted_and_the_first_five_named(tmp_path):
    image_folder(tmp_path, n=9)
    Image.new("F", (5, 4)).save(tmp_path / "dog" / "float.tif")
    for i in range(6):  # truncated, and no images at all
        path = tmp_path / "cat" / f"{i}.png"
        path.write_bytes(path.read_bytes()[:40] if i % 2 else b"no image")
    train, val = da.load(tmp_path, val_fraction=0.3)
    assert len(train) + len(val) == 12
    (warning,) = train.warnings
    five = ", ".join(f"'cat/{i}.png'" for i in range(5))
    start = f"7 of 19 images cannot be read and are left out: {five}, .... Of the first: "
    assert warning.startswith(start) and "cat/0.png cannot be read" in warning


def test_a_class_of_broken_images_only_is_refused(tmp_path):
    image_folder(tmp_path)
    for path in (tmp_path / "dog").iterdir():
        path.unlink()
    Image.new("F", (5, 4)).save(tmp_path / "dog" / "float.tif")
    with pytest.raises(DataError, match="8 or 16 bits"):
        da.load(tmp_path, val_fraction=0.3)


SHAPE = np.zeros((8, 9), np.uint8)
SHAPE[2:5, 3:8] = 255


def icons(root, colours, mode="RGBA"):
    """Pictures of one colour each, whose shape is in their opacity; the shape moves."""
    for i, colour in enumerate(colours):
        shape = Image.fromarray(np.roll(SHAPE, i % 3, 0))
        icon = Image.new("RGB", shape.size, (colour,) * 3)
        icon.putalpha(shape)
        path = root / "ab"[i % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        icon = icon.quantize(4) if mode == "P" else icon.convert(mode)
        icon.save(path)
    return root


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
@pytest.mark.parametrize(
    ("colours", "ground", "seen"),
    [((0,), "white", (1, 0)), ((255,), "black", (0, 1)), ((0, 255), "grey", (127.5 / 255,))],
)
def test_a_shape_in_the_opacity_is_seen(tmp_path, colours, ground, seen, mode):
    train, _ = da.load(icons(tmp_path, colours * (12 // len(colours)), mode), val_fraction=0)
    for x, name in zip(train.x, train.ids, strict=True):
        i = int(Path(name).stem)
        shape = np.roll(SHAPE, i % 3, 0) > 0
        assert x.shape == (1 if mode == "LA" else 3, 8, 9)
        ink = colours[i % len(colours)] / 255
        assert np.allclose(x, np.where(shape, ink, seen[0]), atol=1e-3)
    assert f"12 of 12 images are transparent in parts: read on {ground}" in train.warnings[0]


def test_white_shapes_of_a_dataset_are_seen():
    pairs = []
    for i in range(12):
        icon = Image.new("RGB", (9, 8), "white")
        icon.putalpha(Image.fromarray(np.roll(SHAPE, i % 3, 0)))
        pairs.append((icon, i % 2))
    train, _ = da.load(pairs, val_fraction=0)
    assert np.array_equal(train.x[0, 0], SHAPE / 255)
    assert "12 of 12 images are transparent in parts: read on black" in train.warnings[0]


def test_opaque_images_with_an_alpha_channel_need_no_word(tmp_path):
    assert not da.load(image_folder(tmp_path, "RGBA"), val_fraction=0)[0].warnings


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["png", "tif", "webp"])
def test_images_are_turned_as_their_exif_says(tmp_path, orientation, suffix):
    shown = RNG.integers(0, 256, (4, 5, 3), dtype=np.uint8)
    # What a camera stores whose viewer undoes it: the inverse of each turn.
    back = dict(enumerate((None, 0, 3, 1, 5, 2, 6, 4), 1))[orientation]
    stored = Image.fromarray(shown)
    stored = stored if back is None else stored.transpose(Image.Transpose(back))
    exif = Image.Exif()
    exif[0x0112] = orientation
    for name in ("a/1", "b/2"):
        (tmp_path / name).parent.mkdir()
        stored.save(tmp_path / f"{name}.{suffix}", exif=exif, lossless=True)
    Image.new("RGB", (5, 4)).save(tmp_path / "b" / "3.png")
    train, _ = da.load(tmp_path, val_fraction=0)
    for x in train.x[:2]:
        assert np.array_equal(np.rint(x * 255), shown.transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("parts", "further"),
    [
        (("Train", "Test"), []),
        (("Training", "Testing"), []),
        (("train", "valid"), []),
        (("train", "dev"), []),
        (("train", "val", "test"), ["test"]),
        (("training_set", "test_set"), []),
        (("seg_train", "seg_test"), []),
    ],
)
def test_parts_by_any_of_their_names(tmp_path, parts, further):
    for n, part in enumerate(parts, 2):
        image_folder(tmp_path / part, n=n)
    train, val = da.load(tmp_path)
    assert (len(train), len(val), train.class_names) == (4, 6, ("cat", "dog"))
    assert val.ids[0] == f"{parts[1]}/cat/0.png"
    assert [column.name for column in train.columns] == further


def test_a_class_that_is_called_train(tmp_path):
    image_folder(tmp_path)
    (tmp_path / "cat").rename(tmp_path / "train")
    (tmp_path / "dog").rename(tmp_path / "test")
    assert da.load(tmp_path, val_fraction=0)[0].class_names == ("test", "train")


def test_folders_without_images(tmp_path):
    image_folder(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"every class folder must hold images.*empty"):
        da.load(tmp_path)
    (tmp_path / "train" / "empty").mkdir(parents=True)
    with pytest.raises(DataError, match=r"every class folder must hold images.*train.empty"):
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
