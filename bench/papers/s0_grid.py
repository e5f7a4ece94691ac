"""S0 Fig. 6: test error by m and k, 20 x 20 weightings of Boston Housing and Breast Cancer.

python papers/s0_grid.py [bh] [bc]     one batched program for all weightings

A map of test errors is no choice of m and k: the best of 400 is optimistic.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

sys.path.insert(0, str(Path(__file__).parents[1]))

import s0_networks as networks
from figure import maps
from record import record
from s0_networks import Training
from s0_table1 import boston, split

from datassay.act import scaled_variance
from datassay.score import nearest_neighbors, neighbor_variance

RATIOS = np.linspace(2, 100, 20)
NEIGHBORS = np.linspace(10, 50, 20).round().astype(int)


def weightings(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """None first, then all pairs, m outermost: [401, n]."""
    index = nearest_neighbors(x, int(NEIGHBORS.max())).index
    each = [neighbor_variance(index[:, :k], y) for k in NEIGHBORS]
    return np.stack([
        np.ones(len(x)) / len(x),
        *(scaled_variance(v, m) for m in RATIOS for v in each),
    ])


def boston_grid(n_splits: int = 5, epochs: int = 50_000) -> np.ndarray:
    """Mean squared error on the test part, [splits, 401]; all splits in one program."""
    x, y = boston()
    how = Training(None, "adam", 5e-4, epochs, 404, "mse")
    parts = [split(x, y, s) for s in range(n_splits)]
    problems = [(px, py, w, 0) for px, _, py, _ in parts for w in weightings(px, py)]
    theta = networks.linear_by_moments(*zip(*problems, strict=True), how).numpy()
    error = []
    for (_, test_x, _, test_y), each in zip(parts, np.split(theta, n_splits), strict=True):
        outputs = np.c_[test_x, np.ones(len(test_x))] @ each.T
        error.append(np.square(outputs - test_y[:, None]).mean(0))
    return np.stack(error)


def cancer_grid(n_splits: int = 1, seeds: int = 1, epochs: int = 200) -> np.ndarray:
    """1 - accuracy on the test part, mean over seeds, [splits, 401]."""
    x, y = load_breast_cancer(return_X_y=True)
    how, error = Training(30, "adam", 5e-2, epochs, 455), []
    for s in range(n_splits):
        train_x, test_x, train_y, test_y = split(x, y, s)
        layers, _ = networks.mlps(train_x, train_y, weightings(train_x, train_y), how, range(seeds))
        wrong = (networks.outputs(layers, test_x).numpy() > 0) != test_y
        error.append(wrong.mean(1).reshape(seeds, -1).mean(0))
        print("Cancer, split", s, error[-1][0].round(4), error[-1][1:].min().round(4), flush=True)
    return np.stack(error)


def report(name: str, error: np.ndarray, seconds: float, **more) -> np.ndarray:
    """Record where the map is lowest and how much of it lies below no weights; the mean map."""
    shape = (len(RATIOS), len(NEIGHBORS))
    over = error[:, 1:] - error[:, :1]
    mean = over.mean(0).reshape(shape)
    row, column = np.unravel_index(mean.argmin(), shape)
    record(
        f"s0_grid: {name}",
        splits=len(error),
        no_weights=error[:, 0].mean(),
        lowest_difference=mean.min(),
        at_m=RATIOS[row],
        at_k=int(NEIGHBORS[column]),
        better_pairs=float((mean < 0).mean()),
        better_pairs_by_split=(over < 0).mean(1),
        difference_by_m=mean.mean(1)[::6],
        difference_by_k=mean.mean(0)[::6],
        seconds=seconds,
        **more,
    )
    return mean


def main() -> None:
    given, panels = sys.argv[1:] or ["bh", "bc"], {}
    if "bh" in given:
        start = time.perf_counter()
        error = boston_grid()
        mean = report("Boston Housing", error, time.perf_counter() - start, epochs=50_000)
        first = (error[0, 1:] - error[0, 0]).reshape(mean.shape)
        panels["Boston, split 0: MSE - that of no weights"] = first
        panels[f"Boston, mean of {len(error)} splits"] = mean
    if "bc" in given:
        start = time.perf_counter()
        error = cancer_grid()
        mean = report("Breast Cancer", error, time.perf_counter() - start, epochs=200, seeds=1)
        panels["Breast Cancer: error - that of no weights"] = mean
    shown = {k: (v, RATIOS, NEIGHBORS, "neighbours k (rows: m)") for k, v in panels.items()}
    maps("s0_grid_6", "S0 Fig. 6: test error by m and k", shown)


if __name__ == "__main__":
    main()
