"""Digit images for the lab's experiments."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from datassay.data import load


def digit_images(
    seed: int, count: int | None = None
) -> tuple[Float[np.ndarray, "n 8 8"], Int[np.ndarray, " n"]]:
    """Digits of 8 x 8 pixels in [0, 1], in random order.

    Args:
        seed: of the order.
        count: number of digits; None for all 1797.

    Returns:
        (images, labels 0 to 9).

    Cost: reads a file of scikit-learn; about 0.1 s.
    """
    parts = load("digits")
    images = np.concatenate([part.x[:, 0] for part in parts]).astype(float)
    labels = np.concatenate([part.y for part in parts])
    order = np.random.default_rng(seed).permutation(len(labels))[:count]
    return images[order], labels[order]
