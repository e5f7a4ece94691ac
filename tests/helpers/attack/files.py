"""Archives, IDX files and images: damaged, odd or hostile. What loads must be what is in them."""

import gzip
import io
import os
import pickle
import random
import socket
import struct
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

from helpers.attack.attempt import Attempt
from helpers.attack.case import Case, damaged, loading


def case(draw: random.Random, folder: Path) -> Case:
    """One file or folder that is to be loaded."""
    kind = draw.choice([_archive, _archive, _idx, _images, _images, _places])
    name, path = kind(draw, folder)
    stored = folder.parent / "loaded.pickle"
    stored.unlink(missing_ok=True)
    return Case(name, loading(path, stored), lambda ended: _judged(ended, stored, folder / path))


def _judged(ended: Attempt, stored: Path, path: Path) -> str | None:
    if ended.status:
        return None
    sets = pickle.loads(stored.read_bytes())  # our own, of a moment ago
    x, y, ids = (np.concatenate([s[name] for s in sets]) for name in ("x", "y", "ids"))
    names = np.array(sets[0]["classes"])
    if path.is_dir() and not list(path.glob("*idx*")):
        images = {
            f.relative_to(path).as_posix(): f for f in path.rglob("*")
            if f.suffix in {".png", ".jpg", ".bmp", ".ppm", ".tif"}
        }  # fmt: skip
        # What cannot be read is left out, and named.
        said = " ".join(word for one in sets for word in one["warnings"])
        missing = images.keys() - set(ids.tolist())
        if len(images) != len(ids) + len(missing) or any(m not in said for m in missing):
            return f"silent: {len(ids)} of {len(images)} images"
        for pixels, label, name in zip(x, y.tolist(), ids.tolist(), strict=True):
            with Image.open(images[name]) as image:
                wanted = np.asarray(image.convert("RGB"), float).transpose(2, 0, 1) / 255
            if names[label] != name.split("/")[0] or abs(pixels - wanted).max() > 0.01:
                return f"silent: other pixels or another label of {name}"
        return None
    if path.is_dir():
        wanted, labels = _idx_arrays(path)
        same = np.allclose(x[:, 0], wanted[ids] / 255, atol=1e-6)
        right = names[y].tolist() == [str(label) for label in labels[ids]]
        return None if same and right else "silent: other images or labels"
    with np.load(path, allow_pickle=False) as arrays:
        row = {str(name): i for i, name in enumerate(arrays["ids"].tolist())}
        index = [row[str(name)] for name in ids.tolist()]
        same = np.allclose(x, arrays["x"][index].astype(float), rtol=1e-6, atol=0)
        if not same or len(index) != len(arrays["x"]) or len(set(index)) < len(index):
            return "silent: other numbers"
        labels = names[y].tolist() if len(names) else y.tolist()
        wanted = arrays["y"][index].tolist()
        return None if [*map(str, labels)] == [*map(str, wanted)] else "silent: other labels"


def _idx_arrays(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels by their layout alone; the plain file counts where both are there."""
    arrays = []
    for what, head in (("images", 16), ("labels", 8)):
        files = [f for f in path.iterdir() if what in f.name]
        file = min(files, key=lambda f: f.suffix == ".gz")
        content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        arrays.append(np.frombuffer(content[head:], np.uint8))
    return arrays[0].reshape(len(arrays[1]), 4, 4), arrays[1]


def _damaged(draw: random.Random, path: Path) -> str:
    how, content = damaged(draw, path.read_bytes())
    path.write_bytes(content)
    return how


def _samples(draw: random.Random, n: int = 40) -> dict[str, np.ndarray]:
    numbers = np.random.default_rng(draw.randrange(2**32))
    x = numbers.normal(size=(n, 5))
    return {"x": x, "y": (x[:, 0] > 0).astype(int), "ids": np.array([f"s{i}" for i in range(n)])}


def _archive(draw: random.Random, folder: Path) -> tuple[str, str]:
    arrays, path = _samples(draw), folder / "data.npz"
    odd = {
        "damaged": None, "objects": {"x": np.array([[1, "a"]] * 40, dtype=object)},
        "text numbers": {"x": arrays["x"].astype(str)}, "complex": {"x": arrays["x"] + 1j},
        "huge": {"x": arrays["x"] * 1e200}, "tiny": {"x": arrays["x"] * 1e-150},
        "one value": {"x": np.ones((40, 5))},
        "not finite": {"x": np.where(arrays["x"] > 2, np.inf, arrays["x"])},
        "no samples": {"x": np.zeros((0, 5)), "y": np.zeros(0)},
        "no features": {"x": np.zeros((40, 0))}, "scalar": {"x": np.float64(3)},
        "fewer labels": {"y": arrays["y"][:-1]},
        "large ids": {"ids": np.arange(2**63, 2**63 + 40, dtype=np.uint64)},
        "surrogate ids": {"ids": np.array([f"\ud800{i}" for i in range(40)])},
        "escape ids": {"ids": np.array([f"\x1b]0;x\x07{i}" for i in range(40)])},
        "script ids": {"ids": np.array([f"</script><script>alert({i})" for i in range(40)])},
        "same ids": {"ids": np.array(["a"] * 40)},
        "dates": {"x": np.array(["2020-01-01"] * 40, dtype="datetime64[D]")[:, None]},
        "half": {"x": arrays["x"].astype(np.float16)}, "negative labels": {"y": arrays["y"] - 5},
        "a class per row": {"y": np.array([f"c{i}" for i in range(40)])},
        "nested": {"x": np.zeros((40, 1, 1, 1, 5)) + arrays["x"][:, None, None, None]},
    }  # fmt: skip
    name = draw.choice([*odd, *["damaged"] * 12, "claim", "bomb", "renamed"])
    np.savez(path, **(arrays | (odd.get(name) or {})))
    if name == "damaged":
        name = _damaged(draw, path)
    if name in {"claim", "bomb"}:
        _claimed(path, arrays, 10**12 if name == "claim" else 10**9, name == "bomb")
    if name == "renamed":
        path.write_bytes(pickle.dumps(arrays))
    return f"npz {name}", "data.npz"


def _claimed(path: Path, arrays: dict, rows: int, whole: bool) -> None:
    """An archive whose x claims so many rows; one that is whole unpacks to a gigabyte of zeros."""
    head = io.BytesIO()
    fields = {"descr": "|u1", "fortran_order": False, "shape": (rows,)}
    np.lib.format.write_array_header_1_0(head, fields)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        with file.open("x.npy", "w", force_zip64=True) as entry:
            entry.write(head.getvalue())
            for _ in range(rows // 10**7 if whole else 1):
                entry.write(bytes(10**7))
        y = io.BytesIO()
        np.save(y, arrays["y"])
        file.writestr("y.npy", y.getvalue())


def _idx(draw: random.Random, folder: Path) -> tuple[str, str]:
    numbers = np.random.default_rng(draw.randrange(2**32))
    images = numbers.integers(0, 256, (40, 4, 4), dtype=np.uint8)
    parts = {
        "train-images-idx3-ubyte": struct.pack(">IIII", 0x803, 40, 4, 4) + images.tobytes(),
        "train-labels-idx1-ubyte": struct.pack(">II", 0x801, 40) + bytes([0, 1] * 20),
    }
    packed = draw.random() < 0.5
    for name, content in parts.items():
        file = folder / (name + ".gz" * packed)
        file.write_bytes(gzip.compress(content) if packed else content)
    name = draw.choice(["clean", "damaged", "damaged", "damaged", "count", "twice"])
    first = folder / ("train-images-idx3-ubyte" + ".gz" * packed)
    if name == "damaged":
        name = _damaged(draw, folder / draw.choice([p.name for p in folder.iterdir()]))
    if name == "count":
        content = struct.pack(">IIII", 0x803, 2**31, 2**15, 2**15) + images.tobytes()
        first.write_bytes(gzip.compress(content) if packed else content)
    if name == "twice":
        (folder / "train-images.idx3-ubyte").write_bytes(parts["train-images-idx3-ubyte"])
    return f"idx {name}", "."


def _images(draw: random.Random, folder: Path) -> tuple[str, str]:
    root = folder / "pets"
    numbers = np.random.default_rng(draw.randrange(2**32))
    for label in ("cat", "dog"):
        (root / label).mkdir(parents=True)
        for k in range(8):
            pixels = numbers.integers(0, 256, (6, 6, 3), dtype=np.uint8)
            suffix = draw.choice([".png", ".png", ".jpg", ".bmp", ".ppm"])
            Image.fromarray(pixels).save(root / label / f"{k}{suffix}")
    files = sorted(p for p in root.rglob("*") if p.is_file())
    one, changes = draw.choice(files), [*IMAGES, *[_broken_image] * 5]
    change = draw.choice(changes)
    change(draw, root, one)
    return f"images {change.__name__.strip('_')}", "pets"


def _broken_image(draw, root, one):
    _damaged(draw, one)


def _postscript(draw, root, one):
    one.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 6 6\n(touched) print\nshowpage\n")


def _other_content(draw, root, one):
    one.write_bytes(draw.choice([b"", b"<svg/>", b"%PDF-1.4", b"MZ" + bytes(99), b"GIF89a"]))


def _bomb(draw, root, one):
    one.unlink()
    Image.new("1", (12_000, 12_000)).save(one.with_suffix(".png"))


def _pipe(draw, root, one):
    one.unlink()
    os.mkfifo(one.with_suffix(".png"))


def _link_out(draw, root, one):
    one.unlink()
    one.symlink_to(draw.choice(["/dev/zero", "nowhere.png", ".", "/proc/self/mem"]))


def _circle(draw, root, one):
    (one.parent / "again").symlink_to(root, target_is_directory=True)


def _deep(draw, root, one):
    path = one.parent
    for k in range(60):
        path = path / f"d{k}"
    path.mkdir(parents=True)
    one.rename(path / one.name)


def _other_size(draw, root, one):
    Image.new("RGB", (7, 6)).save(one)


def _grey(draw, root, one):
    Image.new(draw.choice(["L", "1", "P", "RGBA", "CMYK"]), (6, 6)).convert("RGB").save(one)


def _deep_colour(draw, root, one):
    one.unlink()
    Image.fromarray(np.full((6, 6), 70_000, np.int32), mode=None).save(one.with_suffix(".tif"))


def _odd_name(draw, root, one):
    names = [b"\xff\xfe", b"a\nb", b"\x1b[31m", b"<img src=x onerror=alert(1)>", b"x" * 240, b" "]
    position = os.fsencode(one.parent)
    os.rename(os.fsencode(one), position + b"/" + draw.choice(names) + os.fsencode(one.suffix))


def _odd_class(draw, root, one):
    name = draw.choice([b"\xff", b"<script>alert(1)<", b"\x1b[2J", b"a\tb"])
    os.rename(os.fsencode(one.parent), os.fsencode(root) + b"/" + name)


def _empty_class(draw, root, one):
    (root / "mouse").mkdir()


def _results_inside(draw, root, one):
    (root / "report").mkdir()
    (root / "report" / "index.html").write_text("<meta name='generator' content='datassay 0'>")


IMAGES = (
    *(_postscript, _other_content, _bomb, _pipe, _link_out, _circle, _deep, _other_size, _grey),
    *(_deep_colour, _odd_name, _odd_class, _empty_class, _results_inside),
)


def _places(draw: random.Random, folder: Path) -> tuple[str, str]:
    """What is no file of data at all."""
    name = draw.choice(["fifo", "socket", "device", "folder", "missing", "user", "long", "link"])
    path = folder / f"data{draw.choice(['.csv', '.npz', '.parquet', ''])}"
    if name == "fifo":
        os.mkfifo(path)
    elif name == "socket":
        listening = socket.socket(socket.AF_UNIX)
        position = os.getcwd()
        os.chdir(folder)  # a socket's path is short
        try:
            listening.bind(path.name)
        finally:
            os.chdir(position)
            listening.close()
    elif name == "folder":
        path.mkdir()
    elif name == "link":
        path.symlink_to(path.name)
    elif name in {"device", "user", "long"}:
        return f"place {name}", {
            "device": draw.choice(["/dev/zero", "/dev/stdin", "/dev/null", "/proc/self/mem"]),
            "user": draw.choice(["~nobody-here/x.csv", "~/none.csv", "~"]),
            "long": "x" * draw.choice([300, 5000]) + ".csv",
        }[name]
    return f"place {name}", path.name
