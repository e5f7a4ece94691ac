"""Local-variance weights of 60 000 x 64 features, k = 20, against scikit-learn's neighbours.

Exact and approximate search compared with `NearestNeighbors(algorithm="brute", n_jobs=-1)` in the
same run and in turn, the minimum of each; seconds of the processor too, since the wall clock also
counts whatever else the machine does. The k-d tree, S0's choice, answers 200 queries on one core,
times n/200. Needs datassay[neighbors]; OMP_NUM_THREADS=2.
"""

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from bench.data import idx_rows
from bench.frame import Case, Options, Row, Task
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from datassay.act import sample_weights

K, RATIO, N, COLUMNS = 20, 40, 60_000, 64
TREE_QUERIES = 200


def fashion() -> tuple[np.ndarray, np.ndarray]:
    x, y = idx_rows("fashion_mnist")
    return PCA(COLUMNS, svd_solver="covariance_eigh").fit_transform(x.astype(np.float64)), y


def gaussian() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(N, COLUMNS))
    return x, (x @ draw.normal(size=(COLUMNS, 10))).argmax(1)


def brute_weights(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The same weights from scikit-learn's brute force, written as one would."""
    search = NearestNeighbors(n_neighbors=K, algorithm="brute", n_jobs=-1).fit(x)
    neighbors = search.kneighbors(x, return_distance=False)
    variance = np.eye(int(y.max()) + 1)[y][neighbors].var(1).sum(1)
    weight = 1 + (RATIO - 1) * variance / variance.max()
    return weight / weight.sum()


def timed(call: Callable) -> tuple:
    start = time.perf_counter(), time.process_time()
    result = call()
    return result, np.array([time.perf_counter() - start[0], time.process_time() - start[1]])


def measured(source: Callable, options: Options) -> dict[str, object]:
    x, y = source()
    calls = {
        "exact": lambda: sample_weights(x, y, K, RATIO, search="exact"),
        "approximate": lambda: sample_weights(x, y, K, RATIO, search="approximate"),
        "brute": lambda: brute_weights(x, y),
    }
    results, seconds = {}, {}
    for _ in range(options.repeats or 3):
        for name, call in calls.items():
            results[name], took = timed(call)
            seconds[name] = np.minimum(seconds.get(name, np.inf), took)
    some = x[np.random.default_rng(1).choice(len(x), TREE_QUERIES, replace=False)]
    tree = NearestNeighbors(n_neighbors=K, algorithm="kd_tree").fit(x)
    largest = np.abs(results["exact"].weight - results["brute"]).max() * len(x)  # of mean 1
    return {
        "n": len(x), "columns": x.shape[1], "k": K, "repeats": options.repeats or 3,
        **{f"{name}_seconds": took for name, took in seconds.items()},
        "exact_times_faster": seconds["brute"] / seconds["exact"],
        "approximate_times_faster": seconds["brute"] / seconds["approximate"],
        "largest_difference": float(largest), "recall": results["approximate"].details["recall"],
        "tree_seconds": timed(lambda: tree.kneighbors(some))[1][0] * len(x) / TREE_QUERIES,
    }  # fmt: skip


def rows(lines: dict[str, dict]) -> Row:
    near = lines["neighbors/fashion PCA"]
    return Row(
        "Weights by local variance, 60 000 samples x 64 columns, 20 neighbours, against "
        "scikit-learn's brute force: exact; approximate (share of the neighbours found)",
        f"{near['exact_times_faster'][0]:.1f}; {near['approximate_times_faster'][0]:.1f} times "
        f"faster ({near['recall']:.2f})",
    )


TASK = Task(
    measure="seconds of local-variance weights",
    cases={
        "fashion PCA": Case(partial(measured, fashion), fresh=True),
        "gaussian": Case(partial(measured, gaussian), fresh=True),
    },
    lines="neighbors/",
    rows=rows,
)
