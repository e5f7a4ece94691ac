"""Samples of two rules."""

import numpy as np


def two_rules(n=160, minority=0.25, seed=0):
    """Inputs in the plane, labels by the first coordinate, the minority's by the opposite."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(n, 2))
    x[:, 0] += np.sign(x[:, 0])
    other = np.arange(n) < round(minority * n)
    y = (x[:, 0] > 0) ^ other
    order = draw.permutation(n)
    return x[order], y[order].astype(int), np.where(other, "theirs", "ours")[order]
