"""The job: count the samples of each class."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Tally:
    """Samples of each class."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    settings: object


def run(train, val, settings, progress):
    """Count them."""
    progress("count", 1, 1)
    sizes = np.bincount(train.y, minlength=train.n_classes)
    chosen = [
        k for k, n in enumerate(train.class_names) if n in (settings.only or train.class_names)
    ]
    names = tuple(train.class_names[k] for k in chosen)
    return Tally(names, tuple(int(sizes[k]) for k in chosen), settings)
