"""Files made to hang, to fill memory or to start programs: one line each, nothing is opened."""

import gzip
import io
import os
import struct
import zipfile
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from PIL import Image

import datassay as da
from datassay.data import source
from datassay.data.back.origin import source_digest
from datassay.data.pictures import FORMATS, SUFFIXES
from datassay.errors import DataError

RNG = np.random.default_rng(0)


@pytest.fixture
def images(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        for i in range(4):
            pixels = RNG.integers(0, 255, (8, 8), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / name / f"{i}.png")
    return tmp_path


def load(path):
    return da.load(path, val_fraction=0.4)


def left_out(images, reason):
    """One of nine images is left out, and the reason said."""
    train, val = load(images)
    assert len(train) + len(val) == 8
    (warning,) = train.warnings
    assert warning.startswith("1 of 9 images cannot be read and is left out: 'a/")
    assert reason in warning


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet", "t.npz"])
def test_pipes_and_devices_are_not_opened(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match="must be a file; it is a pipe"):
        da.load(tmp_path / name)
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(DataError, match="must be a file"):
        da.load(tmp_path / name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_pipes_among_images_and_idx_files(images):
    os.mkfifo(images / "a" / "pipe.png")
    (images / "train-images-idx3-ubyte").symlink_to("/dev/zero")
    (images / "train-labels-idx1-ubyte").symlink_to("/dev/zero")
    left_out(images, "must be a file; it is a pipe")


def refuse_scan(folder, *args):
    raise PermissionError(13, "Permission denied", str(folder))


def test_a_folder_that_cannot_be_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(source.os, "scandir", refuse_scan)
    with pytest.raises(DataError, match=r"cannot be read: Permission denied\. Allow reading"):
        da.load(tmp_path)


@pytest.mark.parametrize("names", [("inner", "other"), ("other", "inner")])
def test_sub_folders_that_cannot_be_listed_are_named(images, monkeypatch, names):
    for name in names:  # a disk lists them as they were made, or the other way round
        (images / "a" / name).mkdir()
    scan = os.scandir
    inside = ("inner", "other")
    monkeypatch.setattr(
        os, "scandir", lambda p: (refuse_scan if str(p).endswith(inside) else scan)(p)
    )
    with pytest.raises(DataError, match=r"a/inner: Permission denied, .*a/other: Permission"):
        load(images)


def test_links_to_folders_are_not_dropped_in_silence(images):
    (images / "a" / "loop").symlink_to(images)
    with pytest.raises(DataError, match="is a link to a folder, which is not followed"):
        load(images)


def test_what_is_passed_over_is_said(images):
    (images / "a" / "Thumbs.db").write_text("x")
    (images / "results").mkdir()
    page = '<!doctype html>\n<meta name="generator" content="datassay 1">'
    (images / "results" / "index.html").write_text(page)
    train, _ = load(images)
    assert train.class_names == ("a", "b")
    (note,) = train.columns
    assert note.read_as == "left out"
    assert "2 files or folders that are no images: 'a/Thumbs.db', 'results'" in note.note


@pytest.mark.parametrize(
    "content", [b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\nshowpage\n", b"%PDF-1.4\n", b""]
)
def test_a_png_that_is_a_program_for_another_is_never_started(images, monkeypatch, content):
    monkeypatch.setattr("subprocess.Popen", lambda *a, **k: pytest.fail("a program was started"))
    (images / "a" / "x.png").write_bytes(content)
    left_out(images, "x.png cannot be read")


def test_each_suffix_has_a_format_and_no_other_is_tried():
    extensions = Image.registered_extensions()
    assert {extensions[suffix] for suffix in SUFFIXES} == set(FORMATS)


def png(width, height):
    def part(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = part(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    body = part(b"IDAT", zlib.compress(b"\0" * 1000)) + part(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + head + body


@pytest.mark.parametrize("side", [10_000, 60_000])
def test_images_that_unpack_to_gigabytes(images, side):
    (images / "a" / "x.png").write_bytes(png(side, side))
    left_out(images, "x.png is too large")


def test_images_of_several_frames(images):
    frames = [Image.fromarray(RNG.integers(0, 255, (8, 8), dtype=np.uint8)) for _ in range(3)]
    frames[0].save(images / "a" / "x.gif", save_all=True, append_images=frames[1:])
    left_out(images, "must hold one image; it holds 3 frames")


def npy(header, body=b""):
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


@pytest.mark.parametrize(
    ("shape", "body"),
    [("(1000000000000, 2)", b""), ("(10000000000,)", b""), ("(-1, -8)", b"\0" * 64), ("(4,)", b"")],
)
def test_headers_that_claim_what_is_not_there(tmp_path, shape, body):
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
        header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}"
        archive.writestr("x.npy", npy(header, body))
        archive.writestr("y.npy", npy(header, body))
    with pytest.raises(DataError, match=r"t\.npz cannot be read: x must hold .* bytes"):
        da.load(tmp_path / "t.npz")


def test_what_does_not_fit_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "available_memory", lambda: 10_000.0)
    np.savez_compressed(tmp_path / "t.npz", x=np.zeros((1000, 2)), y=np.arange(1000) % 2)
    with pytest.raises(DataError, match=r"would take .* GB of memory; .* are free"):
        da.load(tmp_path / "t.npz")
    shape = b"".join(n.to_bytes(4, "big") for n in (1000, 8, 8))
    images = gzip.compress(b"\0\0\x08\x03" + shape + b"\0" * 64000)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(images)
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(images)
    with pytest.raises(DataError, match="would take"):
        da.load(tmp_path)


def test_strings_stored_once_that_would_fill_memory(tmp_path, monkeypatch):
    words = pa.array(["ab " * 1000, "cd " * 1000])
    coded = pa.DictionaryArray.from_arrays(pa.array(np.arange(2000) % 2, pa.int32()), words)
    parquet.write_table(pa.table({"w": coded, "y": np.arange(2000) % 2}), tmp_path / "t.parquet")
    monkeypatch.setattr(source, "available_memory", lambda: 5e6)
    with pytest.raises(DataError, match=r"column 'w' would take 0\.0 GB"):
        da.load(tmp_path / "t.parquet")


def intact():
    x, y = RNG.normal(size=(30, 2)), np.arange(30) % 2
    table = pa.table({"u": x[:, 0], "w": [f"word{i} b" for i in range(30)], "y": y})
    csv = "u,w,y\n" + "".join(f'{a:.3f},"w{i} ""q""",{i % 2}\r\n' for i, a in enumerate(x[:, 0]))
    archive, columns = io.BytesIO(), io.BytesIO()
    np.savez_compressed(archive, x=x, y=y, ids=[f"k{i}" for i in range(30)])
    parquet.write_table(table, columns)
    image = io.BytesIO()
    Image.fromarray(RNG.integers(0, 255, (8, 8), dtype=np.uint8)).save(image, "png")
    return {"t.npz": archive.getvalue(), "t.parquet": columns.getvalue(), "t.csv": csv.encode(),
            "a/0.png": image.getvalue()}  # fmt: skip


@pytest.mark.parametrize("name", ["t.npz", "t.parquet", "t.csv", "a/0.png"])
def test_damaged_files_raise_nothing_else(images, name):
    content, path = intact()[name], images / name
    for share in () if name == "t.csv" else (0, 0.01, 0.3, 0.6):
        path.write_bytes(content[: int(share * len(content))])
        if name.endswith("png"):  # of eight the only one; the others are read
            assert "0.png cannot be read" in load(images)[0].warnings[0]
            continue
        with pytest.raises(DataError, match=rf"{path.name} cannot be read"):
            load(path)
    for k in range(60):
        damaged = bytearray(content)
        match k % 4:
            case 0:
                damaged = damaged[: RNG.integers(len(damaged))]
            case 1:
                damaged[RNG.integers(len(damaged))] ^= 1 << RNG.integers(8)
            case 2:
                index = RNG.integers(len(damaged))
                damaged[index : index + 4] = RNG.bytes(4)
            case 3:
                index = RNG.integers(len(damaged))
                damaged[index:index] = [b"\0", b'"', b"\xef\xbb\xbf", b"\n", b"\xff"][k % 5]
        path.write_bytes(damaged)
        try:
            load(images if name.endswith("png") else path)
        except DataError as error:
            assert "\n" not in str(error)


def test_names_that_are_no_utf8_and_links_to_themselves(images):
    (images / "a" / os.fsdecode(b"\xff.txt")).touch()
    (images / "self").symlink_to("self")
    assert sum(map(len, da.load(images))) == 8  # the link is no class
    with pytest.raises(DataError, match=r"self must be a file; it is a link to itself"):
        source_digest(images)
    (images / "self").unlink()
    assert len(source_digest(images)) == 64


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet", "arrow"])
def test_a_folder_whose_name_is_no_utf8(tmp_path, suffix):
    folder = tmp_path / os.fsdecode(b"jos\xe9")
    folder.mkdir()
    table = pa.table({"a": RNG.normal(size=30), "y": ["no", "yes"] * 15})
    text = "a,y\n" + "".join(f"{a},{y}\n" for a, y in zip(*table.to_pydict().values(), strict=True))
    if suffix == "arrow":
        with (folder / "t.arrow").open("wb") as file, pa.ipc.new_file(file, table.schema) as sink:
            sink.write_table(table)
    elif suffix == "parquet":
        with (folder / "t.parquet").open("wb") as file:
            parquet.write_table(table, file)
    else:
        content = text.encode()
        (folder / f"t.{suffix}").write_bytes(gzip.compress(content) if "gz" in suffix else content)
    train, _ = da.load(folder / f"t.{suffix}", val_fraction=0.0)
    assert train.x[:, 0].tolist() == table["a"].to_pylist()
    named = folder / f"{os.fsdecode(bytes([0xE9]))}.{suffix}"
    (folder / f"t.{suffix}").rename(named)
    with pytest.raises(DataError, match=r"the name of the data must be text that UTF-8 can hold"):
        da.load(named, val_fraction=0.0)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
def test_a_cell_of_megabytes_is_refused_before_its_words_are_read(tmp_path, monkeypatch, suffix):
    def refuse(*_):
        raise AssertionError

    monkeypatch.setattr("datassay.data.format.LONGEST_CELL", 5000)
    monkeypatch.setattr("datassay.data.format.table_source", refuse)
    words, path = ["x" * 5001, *"abcdefghi"], tmp_path / f"t.{suffix}"
    if suffix == "parquet":
        parquet.write_table(pa.table({"a": words, "y": list("uv") * 5}), path)
    else:
        text = "".join([
            "a,y\n",
            *(f"{word},{y}\n" for word, y in zip(words, "uv" * 5, strict=True)),
        ])
        path.write_bytes(gzip.compress(text.encode()) if "gz" in suffix else text.encode())
    with pytest.raises(DataError, match=r"cells of at most 0 MB; one of column 'a' has 0 MB. Cut"):
        load(path)
