"""The data sets of the paper's experiments, drawn from the folder that DATASSAY_DATA names."""

from __future__ import annotations

import io
import lzma
import os
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image

from datassay.data import SampleSet, read_idx


def folder() -> Path:
    """The data folder; the scripts stop here without one."""
    found = os.environ.get("DATASSAY_DATA")
    if not found:
        raise SystemExit("DATASSAY_DATA must name the folder of real data sets; it is not set.")
    return Path(found)


@cache
def idx_images(name: str, part: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """Images [n, 1, 28, 28] in [0, 1] and labels of MNIST or Fashion-MNIST."""
    stem = folder() / name / ("t10k" if part == "test" else part)
    images = read_idx(Path(f"{stem}-images-idx3-ubyte.gz"))
    labels = read_idx(Path(f"{stem}-labels-idx1-ubyte.gz"))
    return images[:, None].astype(np.float32) / 255, labels.astype(np.int64)


def mnist_pair(first: int, second: int, n: int, m: int, seed: int) -> tuple[SampleSet, SampleSet]:
    """Training and validation images [28, 28] of two digits, from MNIST's own two parts.

    Scaled as S1's code scales every image: (x − 0.456)/0.224.
    """
    sets = []
    for part, size in (("train", n), ("t10k", m)):
        x = read_idx(folder() / "mnist" / f"{part}-images-idx3-ubyte.gz")
        y = read_idx(folder() / "mnist" / f"{part}-labels-idx1-ubyte.gz")
        rng = np.random.default_rng((seed, len(y)))
        chosen = rng.choice(np.flatnonzero(np.isin(y, (first, second))), size, replace=False)
        images = ((x[chosen] / 255 - 0.456) / 0.224).astype(np.float32)
        names = (str(first), str(second))
        sets.append(SampleSet(images, (y[chosen] == second).astype(np.int64), chosen, names))
    return sets[0], sets[1]


@cache
def cats_dogs(part: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """Photographs [2000, 3, 64, 64] in [0, 1]; dog is class 1."""
    with zipfile.ZipFile(folder() / "cats_dogs" / "cats_dogs_64.zip") as archive:
        names = [name for name in archive.namelist() if name.startswith(f"{part}/")]
        images = [np.asarray(Image.open(io.BytesIO(archive.read(name)))) for name in names]
    x = np.stack(images).transpose(0, 3, 1, 2).astype(np.float32) / 255
    return x, np.array(["/dog" in name for name in names], dtype=np.int64)


@cache
def cifar10(*parts: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images [n, 3, 32, 32] in [0, 1], labels, and positions in CIFAR-10 of the named files."""
    x, y, index = [], [], []
    for part in parts:
        with lzma.open(folder() / "cifar10" / f"{part}_x.npy.xz") as file:
            x.append(np.load(file))
        meta = np.load(folder() / "cifar10" / f"{part}_meta.npz")
        y.append(meta["y"].astype(np.int64))
        index.append(meta["index"] if "index" in meta.files else np.arange(len(y[-1])))
    images = np.concatenate(x).transpose(0, 3, 1, 2).astype(np.float32) / 255
    return images, np.concatenate(y), np.concatenate(index)


@cache
def usps(part: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """USPS digits [n, 1, 28, 28] in [0, 1]: resized to 20 x 20 and padded, as MNIST was made."""
    found = np.load(folder() / "usps" / "usps.npz")
    images = [
        np.asarray(Image.fromarray(image).resize((20, 20), Image.Resampling.BICUBIC))
        for image in found[f"x_{part}"].astype(np.float32)
    ]
    padded = np.pad(np.stack(images), ((0, 0), (4, 4), (4, 4))).clip(0, 1)
    return padded[:, None], found[f"y_{part}"].astype(np.int64)


def halved(samples: SampleSet) -> SampleSet:
    """The images at half their size: each pixel the mean of 2 x 2."""
    n, c, h, w = samples.x.shape
    return replace(samples, x=samples.x.reshape(n, c, h // 2, 2, w // 2, 2).mean((3, 5)))


def draw(
    source: Callable[..., tuple[np.ndarray, ...]],
    sizes: tuple[int, ...],
    seed: int,
    *args: str,
    classes: tuple[int, ...] | None = None,
    names: tuple[str, ...] | None = None,
    name: str = "",
) -> list[SampleSet]:
    """Disjoint random sets of the given sizes, of all classes or of some, renumbered from 0."""
    x, y = source(*args)[:2]
    classes = classes or tuple(np.unique(y).tolist())
    eligible = np.flatnonzero(np.isin(y, classes))
    order = np.random.default_rng(seed).permutation(eligible)
    stops = np.cumsum((0, *sizes))
    renumbered = np.searchsorted(classes, y)
    return [
        SampleSet(
            x[some],
            renumbered[some],
            some,
            class_names=names or tuple(map(str, classes)),
            kind="image",
            name=name or source.__name__,
        )
        for some in (np.sort(order[a:b]) for a, b in pairwise(stops))
    ]
