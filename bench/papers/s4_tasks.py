"""The data of S4's experiments: the paper's own files, fresh draws, and its published numbers."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
from bench.data import folder, idx_images, image_set, usps

import datassay as da
from datassay.data import LETTERS, SampleSet, clashing, letter_samples

# Which rows of the training file are of functions 1, 2, 3 (the data folder's README).
SD_SIZES = {
    "pure": ("train_pure", (1000,)),
    "2spec": ("train_mix_2spec", (700, 300)),
    "3spec": ("train_mix_3spec", (700, 150, 150)),
}
NAMES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "usps": "USPS"}


def paper_sd(which: str) -> tuple[SampleSet, SampleSet]:
    """One of SD_SIZES in the file's order, and the paper's 1000 test samples of function 1."""
    name, sizes = SD_SIZES[which]
    return _sd_file(name, sizes, which), _sd_file("test_dis1", (1000,), "test")


def _sd_file(file_name: str, sizes: tuple[int, ...], name: str) -> SampleSet:
    path = folder("divide_and_predict", "Synthetic", f"synthetic_{file_name}.csv")
    with path.open(newline="") as file:
        letters = np.array(list(csv.reader(file))[1:])
    places = np.searchsorted(LETTERS, letters)
    block = np.repeat(np.arange(len(sizes)), sizes)
    return letter_samples(places[:, :-1], places[:, -1], block, name=name)


def paper_digits() -> tuple[SampleSet, SampleSet]:
    """The paper's EMNIST digits 4 and 8: 600 with 30 % wrong (truth unknown), and 600 clean."""
    parts = []
    for part in ("train_30error", "test"):
        found = np.load(folder("emnist", f"datapurification_{part}.npz"))
        images = found["x"][:, None].astype(np.float32) / 255
        parts.append(image_set(images, found["y"] == 8, "EMNIST 4 vs 8", names=("4", "8")))
    return parts[0], parts[1]


def digits_4_8(seed: int, n: int = 600, wrong: float = 0.3) -> tuple[SampleSet, SampleSet]:
    """As paper_digits, drawn from MNIST's two parts, half of each digit, the truth kept."""
    train, test = (
        _even_draw("mnist", part, n, seed, (4, 8), "MNIST 4 vs 8") for part in ("train", "test")
    )
    return da.add_label_noise(train, wrong, seed=seed), test


def idx_noisy(
    name: str, n: int, fraction: float, kind: str, seed: int
) -> tuple[SampleSet, SampleSet]:
    """Of mnist or fashion_mnist n training images, evenly of ten classes, a fraction mislabelled.

    The test set is the data's own, whole and clean.
    """
    train = _even_draw(name, "train", n, seed, tuple(range(10)), NAMES[name])
    test = image_set(*idx_images(name, "test"), train.name)
    return da.add_label_noise(train, fraction, kind=kind, seed=seed), test


def real_mixture(n_each: int, seed: int, n_test: int = 1000) -> tuple[SampleSet, SampleSet]:
    """MNIST, Fashion-MNIST and USPS, evenly of ten classes: class c is c, c + 1, c + 2 mod 10.

    USPS is the smallest: n_each up to 5420, n_test up to 1470.
    """
    digits, sets = tuple(range(10)), []
    for part, n in (("train", n_each), ("test", n_test)):
        parts = [_even_draw(source, part, n, seed, digits, name) for source, name in NAMES.items()]
        sets.append(replace(clashing(parts, seed=seed), name="real mixture"))
    return sets[0], sets[1]


def _even_draw(
    source: str, part: str, n: int, seed: int, classes: tuple[int, ...], name: str
) -> SampleSet:
    """Draw n images, in random order and as many of each class as can be, without replacement."""
    x, y = usps(part) if source == "usps" else idx_images(source, part)
    rng = np.random.default_rng((seed, part == "test"))
    sizes = np.bincount(np.arange(n) % len(classes))
    chosen = np.concatenate([
        rng.choice(np.flatnonzero(y == c), size, replace=False)
        for c, size in zip(classes, sizes, strict=True)
    ])
    chosen = rng.permutation(chosen)
    labels = np.searchsorted(classes, y[chosen])
    return image_set(x[chosen], labels, name, chosen, tuple(map(str, classes)))


def published(figure: int) -> dict[str, np.ndarray]:
    """The numbers behind S4's Figures 4, 6, 8: iteration, size, potential (V), TestAcc."""
    (path,) = folder("divide_and_predict", "results", f"Figure {figure}").glob("*.csv")
    with path.open(newline="") as file:
        header, *rows = csv.reader(file, skipinitialspace=True)
    values = np.array(rows, dtype=float)
    return {name.strip(): values[:, i] for i, name in enumerate(header)}
