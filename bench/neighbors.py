"""Local-variance weights of 60 000 x 64 features, k = 20, against scikit-learn's neighbours.

Exact and approximate search beside `NearestNeighbors(algorithm="brute", n_jobs=-1)` in the same run
and in turn, the minimum of each; seconds of the processor too, since the wall clock also counts
whatever else the machine does. The k-d tree, S0's choice, answers 200 queries on one core, times
n/200.

    OMP_NUM_THREADS=2 python neighbors.py [repeats]     needs datassay[neighbors], DATASSAY_DATA
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent / "papers"))

import numpy as np
from record import peak_mib, record
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors
from tasks import idx_images

from datassay.act import SampleWeights, sample_weights
from datassay.commands import brute_weights

K, RATIO, N, COLUMNS = 20, 40, 60_000, 64
TREE_QUERIES = 200


def fashion() -> tuple[np.ndarray, np.ndarray]:
    x, y = idx_images("fashion_mnist")
    rows = x.reshape(len(x), -1).astype(np.float64)
    return PCA(COLUMNS, svd_solver="covariance_eigh").fit_transform(rows), y


def gaussian() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(N, COLUMNS))
    return x, (x @ draw.normal(size=(COLUMNS, 10))).argmax(1)


def timed(call: Callable[[], object]) -> tuple[object, np.ndarray]:
    start = time.perf_counter(), time.process_time()
    found = call()
    return found, np.array([time.perf_counter() - start[0], time.process_time() - start[1]])


def tree_seconds(x: np.ndarray) -> float:
    some = x[np.random.default_rng(1).choice(len(x), TREE_QUERIES, replace=False)]
    tree = NearestNeighbors(n_neighbors=K, algorithm="kd_tree").fit(x)
    return timed(lambda: tree.kneighbors(some))[1][0] * len(x) / TREE_QUERIES


def main(repeats: int) -> None:
    for name, source in (("fashion PCA", fashion), ("gaussian", gaussian)):
        x, y = source()
        calls: dict[str, Callable[[], object]] = {
            "exact": lambda x=x, y=y: sample_weights(x, y, K, RATIO, search="exact"),
            "approximate": lambda x=x, y=y: sample_weights(x, y, K, RATIO, search="approximate"),
            "brute": lambda x=x, y=y: brute_weights(x, y, K, RATIO),
        }
        found, seconds = {}, {}
        for _ in range(repeats):
            for call in calls:
                found[call], took = timed(calls[call])
                seconds[call] = np.minimum(seconds.get(call, np.inf), took)
        exact, near = found["exact"], found["approximate"]
        assert isinstance(exact, SampleWeights) and isinstance(near, SampleWeights)
        record(
            f"neighbors/{name}",
            n=len(x),
            columns=x.shape[1],
            k=K,
            repeats=repeats,
            exact_seconds=seconds["exact"],
            approximate_seconds=seconds["approximate"],
            brute_seconds=seconds["brute"],
            exact_times_faster=seconds["brute"] / seconds["exact"],
            approximate_times_faster=seconds["brute"] / seconds["approximate"],
            # Of weights with mean 1.
            largest_difference=float(np.abs(exact.weight - found["brute"]).max() * len(x)),
            recall=near.details["recall"],
            tree_seconds=tree_seconds(x),
            peak_mib=peak_mib(),
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
