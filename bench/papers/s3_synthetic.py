"""S3 §3.2: polynomial regression on networks with filters. Table 3.1, Figs 3.1 and 3.2.

S3 states d = 20, n = 2000, ReLU, degree 2, s = min(d, 9) for Fig. 3.1 and no sizes for the others.
Table 3.1 here: every d and n of SIZES, `draws` teachers each, their m those of SIZES in turn; the
median is over all, its interval a bootstrap over settings and draws. The regression has all
products of inputs, not only those inside a filter, and of all that fit as well the one of least
norm, the constant free (scikit-learn's default) or a column of its own (S3 §3.4).

    python papers/s3_synthetic.py [draws]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from itertools import product
from math import comb
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from figure import curves
from record import record
from s0_designs import rounded
from s3_cube import cube, fitted_r2, n_functions, network

SIZES = {"d": (10, 15, 20, 25), "n": (500, 2000), "m": (5, 20, 50, 100)}
FILTER, N_TEST, DEGREES = 9, 2000, (1, 2, 3, 4)
THEIRS = {"relu": [0.7201, 0.721, 0.8795], "sigmoid": [0.3525, 0.784, 0.8035]}  # degree 2, 3, 4
WIDTHS = (1, 2, 5, 10, 20, 50, 100, 200)
DIMENSIONS = (5, 10, 15, 20, 25, 30, 40, 50, 60, 70, 80)
# d, degree and the sample sizes over the number of distinct functions.
GAPS = ((20, 2), (15, 3), (20, 3), (12, 4))
RATIOS = (0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0, 1.15, 1.4, 2.0, 3.0, 5.0, 10.0)


def scores(activation: str, d: int, m: int, n: int, degrees: Iterable[int], seed: int):
    """R² by degree: in sample, out of it, so with a column for the constant, the best possible."""
    g = np.random.default_rng([seed, d, m])
    teacher = network(activation, d, m, min(d, FILTER), g)
    x, x_test = cube(n, d, g), cube(N_TEST, d, g)
    train, test = (x, teacher.outputs(x)), (x_test, teacher.outputs(x_test))
    found = np.array([fitted_r2(train, test, k) for k in degrees])
    return *found.T, teacher.shares(max(degrees))


def median_interval(values: np.ndarray) -> list[float]:
    """Median and its 95 % bootstrap interval."""
    g = np.random.default_rng(0)
    again = np.median(g.choice(values, size=(2000, len(values))), axis=1)
    return rounded([np.median(values), *np.quantile(again, [0.025, 0.975])])


def table(activation: str, draws: int) -> None:
    start, rows = time.perf_counter(), []
    for d, n in product(SIZES["d"], SIZES["n"]):
        for seed in range(draws):
            m = SIZES["m"][seed % len(SIZES["m"])]
            rows.append((d, n, *scores(activation, d, m, n, DEGREES, seed)))
    sizes = np.array([row[:2] for row in rows])
    outside, column, best = (np.array([row[i] for row in rows]) for i in (3, 4, 5))
    by_n = {n: np.median(outside[sizes[:, 1] == n], axis=0) for n in SIZES["n"]}
    by_d = {d: np.median(outside[sizes[:, 0] == d], axis=0) for d in SIZES["d"]}
    record(
        f"papers/s3_synthetic/table 3.1 {activation}",
        **SIZES,
        s=FILTER,
        draws=draws,
        degrees=DEGREES,
        ours=[median_interval(c) for c in outside.T],
        constant_a_column=[median_interval(c) for c in column.T],
        by_n=[[n, *rounded(row)] for n, row in by_n.items()],
        by_d=[[d, *rounded(row)] for d, row in by_d.items()],
        best_polynomial=rounded(np.median(best, axis=0)),
        theirs=THEIRS[activation],
        monomials=[comb(25 + k, k) for k in DEGREES],
        distinct=[n_functions(25, k) for k in DEGREES],
        seconds=time.perf_counter() - start,
    )


def performance(draws: int) -> None:
    """Fig. 3.1: against m at d = 20, and against d at m = 50."""
    for name, fixed, values in (("m", 20, WIDTHS), ("d", 50, DIMENSIONS)):
        start, rows = time.perf_counter(), []
        for value in values:
            d, m = (fixed, value) if name == "m" else (value, fixed)
            found = [scores("relu", d, m, 2000, (2,), seed) for seed in range(draws)]
            outside = np.array([f[1][0] for f in found])
            best = np.median([f[3][1] for f in found])
            rows.append([value, *median_interval(outside), *np.quantile(outside, [0.1, 0.9]), best])
        record(
            f"papers/s3_synthetic/figure 3.1 {name}",
            n=2000,
            degree=2,
            draws=draws,
            columns=[name, "median", "low", "high", "10 %", "90 %", "best polynomial"],
            ours=[rounded(row) for row in rows],
            seconds=time.perf_counter() - start,
        )
        at, *lines = np.array(rows).T
        named = {"median": 0, "10 %": 3, "90 %": 4, "best polynomial": 5}
        curves(
            f"s3_synthetic_3_1_{name}",
            f"S3 Fig. 3.1: degree 2, ReLU, n = 2000, against {name}",
            {k: (np.log10(at) if name == "m" else at, lines[i]) for k, i in named.items()},
            x_title="log10 m" if name == "m" else name,
            y_title="R² out of sample",
        )


def gaps(draws: int) -> None:
    """Fig. 3.2: in-sample less out-of-sample R² against samples over functions."""
    start, lines, rows = time.perf_counter(), {}, []
    for d, degree in GAPS:
        p = n_functions(d, degree)
        medians = []
        for ratio in RATIOS:
            n = round(ratio * p)
            found = [scores("relu", d, 50, n, (degree,), seed) for seed in range(draws)]
            medians.append(float(np.median([f[0][0] - f[1][0] for f in found])))
        rows.append([d, degree, p, comb(d + degree, degree), *rounded(medians)])
        lines[f"d {d}, k {degree}"] = (np.log10(RATIOS), np.minimum(medians, 2.0))
    record(
        "papers/s3_synthetic/figure 3.2",
        m=50,
        draws=draws,
        columns=["d", "degree", "functions", "monomials", *(f"n/p {r}" for r in RATIOS)],
        ours=rows,
        seconds=time.perf_counter() - start,
    )
    curves(
        "s3_synthetic_3_2",
        "S3 Fig. 3.2: generalisation gap (above 2 drawn at 2), ReLU",
        lines,
        x_title="log10 of samples over distinct functions",
        y_title="R² in − out",
    )


if __name__ == "__main__":
    n_draws = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    for kind in THEIRS:
        table(kind, n_draws)
    performance(2 * n_draws)
    gaps(n_draws)
