"""The papers' data sets, drawn with a seed from the real data in DATASSAY_DATA."""

import os
import sys
from pathlib import Path

import numpy as np

from datassay.data.idx import read_idx
from datassay.data.samples import SampleSet

# S1's code scales every image set by these.
MEAN, DEVIATION = 0.456, 0.224


def real_data() -> Path:
    """The folder with the real data."""
    folder = os.environ.get("DATASSAY_DATA")
    if not folder:
        sys.exit("DATASSAY_DATA must name the folder with the real data sets; it is not set.")
    return Path(folder)


def mnist_pair(first: int, second: int, n: int, m: int, seed: int) -> tuple[SampleSet, SampleSet]:
    """Training and validation images (n and m) of two digits, from MNIST's own two parts."""
    parts = []
    for name, size in (("train", n), ("t10k", m)):
        folder = real_data() / "mnist"
        x = read_idx(folder / f"{name}-images-idx3-ubyte.gz")
        y = read_idx(folder / f"{name}-labels-idx1-ubyte.gz")
        rng = np.random.default_rng((seed, len(y)))
        chosen = rng.choice(np.flatnonzero(np.isin(y, (first, second))), size, replace=False)
        images = ((x[chosen] / 255 - MEAN) / DEVIATION).astype(np.float32)
        labels = (y[chosen] == second).astype(np.int64)
        parts.append(SampleSet(images, labels, chosen, (str(first), str(second))))
    return parts[0], parts[1]
