"""The data of S4's experiments: the paper's own files, fresh draws, and its published numbers.

python papers/s4_tasks.py     sizes, classes, wrong labels and sources of every problem
"""

from __future__ import annotations

import csv
from dataclasses import replace
from typing import Literal

import numpy as np
import tasks

import datassay as da
from datassay.data import LETTERS, SampleSet, clashing, letter_samples

# Which rows of the training file are of functions 1, 2, 3 (the data folder's README).
SD_SIZES = {
    "pure": ("train_pure", (1000,)),
    "2spec": ("train_mix_2spec", (700, 300)),
    "3spec": ("train_mix_3spec", (700, 150, 150)),
    "mix12": ("mix12", (1000, 1000)),
    "mix123": ("mix123", (1000, 1000, 1000)),
}
NAMES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "usps": "USPS"}


def paper_sd(which: str) -> tuple[SampleSet, SampleSet]:
    """One of SD_SIZES in the file's order, and the paper's 1000 test samples of function 1."""
    name, sizes = SD_SIZES[which]
    return _sd_file(name, sizes, which), _sd_file("test_dis1", (1000,), "test")


def _sd_file(file_name: str, sizes: tuple[int, ...], name: str) -> SampleSet:
    path = tasks.folder() / "divide_and_predict" / "Synthetic" / f"synthetic_{file_name}.csv"
    with path.open(newline="") as file:
        letters = np.array(list(csv.reader(file))[1:])
    places = np.searchsorted(LETTERS, letters)
    block = np.repeat(np.arange(len(sizes)), sizes)
    return letter_samples(places[:, :-1], places[:, -1], block, name=name)


def paper_digits() -> tuple[SampleSet, SampleSet]:
    """The paper's EMNIST digits 4 and 8: 600 with 30 % wrong (truth unknown), and 600 clean."""
    train, test = (_digits_file(part) for part in ("train_30error", "test"))
    return train, test


def _digits_file(part: str) -> SampleSet:
    found = np.load(tasks.folder() / "emnist" / f"datapurification_{part}.npz")
    images = found["x"][:, None].astype(np.float32) / 255
    return _images(images, found["y"] == 8, np.arange(len(images)), ("4", "8"), "EMNIST 4 vs 8")


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
    x, y = tasks.idx_images(name, "test")
    test = _images(x, y, np.arange(len(x)), train.class_names, train.name)
    return da.add_label_noise(train, fraction, kind=kind, seed=seed), test


def real_mixture(n_each: int, seed: int, n_test: int = 1000) -> tuple[SampleSet, SampleSet]:
    """MNIST, Fashion-MNIST and USPS, evenly of ten classes: class c is c, c + 1, c + 2 mod 10.

    USPS is the smallest: n_each up to 5420, n_test up to 1470.
    """
    digits = tuple(range(10))
    train, test = (
        clashing(
            [_even_draw(source, part, n, seed, digits, name) for source, name in NAMES.items()],
            seed=seed,
        )
        for part, n in (("train", n_each), ("test", n_test))
    )
    return replace(train, name="real mixture"), replace(test, name="real mixture")


def _even_draw(
    source: str,
    part: Literal["train", "test"],
    n: int,
    seed: int,
    classes: tuple[int, ...],
    name: str,
) -> SampleSet:
    """Draw n images, in random order and as many of each class as can be, without replacement."""
    x, y = tasks.usps(part) if source == "usps" else tasks.idx_images(source, part)
    rng = np.random.default_rng((seed, part == "test"))
    sizes = np.bincount(np.arange(n) % len(classes))
    chosen = np.concatenate([
        rng.choice(np.flatnonzero(y == c), size, replace=False)
        for c, size in zip(classes, sizes, strict=True)
    ])
    chosen = rng.permutation(chosen)
    names = tuple(map(str, classes))
    return _images(x[chosen], np.searchsorted(classes, y[chosen]), chosen, names, name)


def _images(
    x: np.ndarray, y: np.ndarray, ids: np.ndarray, names: tuple[str, ...], name: str
) -> SampleSet:
    return SampleSet(x, y.astype(np.int64), ids, class_names=names, kind="image", name=name)


def published(figure: int) -> dict[str, np.ndarray]:
    """The numbers behind S4's Figures 3 to 8, one array a column.

    3, 5, 7: a (and b) the mix, E_acc, std_acc accuracy, E_p, std_p V, over 5 replications.
    4, 6, 8: iteration, size, potential (V), TestAcc.
    """
    (path,) = (tasks.folder() / "divide_and_predict" / "results" / f"Figure {figure}").glob("*.csv")
    with path.open(newline="") as file:
        header, *rows = csv.reader(file, skipinitialspace=True)
    values = np.array(rows, dtype=float)
    return {name.strip(): values[:, i] for i, name in enumerate(header)}


def _describe(title: str, samples: SampleSet) -> None:
    counts = dict(
        zip(samples.class_names, np.bincount(samples.y, minlength=samples.n_classes), strict=True)
    )
    print(f"{title}: x {list(samples.x.shape)}, {samples.x.min():g} to {samples.x.max():g}")
    print("    classes", " ".join(f"{name}:{count}" for name, count in counts.items()))
    if samples.source is not None:
        names, sizes = np.unique(samples.source, return_counts=True)
        print("    sources", " ".join(f"{a}:{b}" for a, b in zip(names, sizes, strict=True)))
    if samples.true_y is not None:
        print(f"    wrong labels {(samples.y != samples.true_y).sum()}")


def main() -> None:
    """Print what every problem holds."""
    problems = {f"paper {which}": paper_sd(which) for which in SD_SIZES}
    problems["paper digits"] = paper_digits()
    problems["4 vs 8, seed 0"] = digits_4_8(0)
    for name in ("mnist", "fashion_mnist"):
        problems[f"{name}, 5000, 20 % wrong"] = idx_noisy(name, 5000, 0.2, "uniform", 0)
    problems["real mixture"] = real_mixture(2000, 0)
    for name, (train, test) in problems.items():
        _describe(f"{name}, train", train)
        _describe(f"{name}, test", test)
    for figure in range(3, 9):
        numbers = published(figure)
        accuracy = numbers.get("TestAcc", numbers.get("E_acc", np.array([])))
        potential = numbers.get("potential", numbers.get("E_p", np.array([])))
        print(
            f"Figure {figure}: {len(accuracy)} rows of {', '.join(numbers)}; accuracy "
            f"{accuracy.min():.3f} to {accuracy.max():.3f}, V up to {potential.max():.1f}"
        )


if __name__ == "__main__":
    main()
