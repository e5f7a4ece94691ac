"""Images as S4's experiments draw them: as many of each class, some labels wrong."""

from __future__ import annotations

import numpy as np
from bench.data import idx_images, image_set

import datassay as da
from datassay.data import SampleSet

NAMES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}


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


def _even_draw(
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
