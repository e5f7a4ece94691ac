"""S3 Tables 3.5 to 3.7 (the polynomial's columns), Figs 3.11 and 3.12.

    python papers/s3_fit.py exact [mnist|fashion_mnist [images]]
    python papers/s3_fit.py batched [mnist|fashion_mnist [images]]

"exact": the sums in float64, then the fit by minimum norm (all eigenvalues), by the ridge that
leave-one-out errors choose, and by plain elimination of S3's own 18 740 features, which hold both
orders of each pair, so that the equations are singular. With S3_STORE, a folder, an interrupted run
goes on. "batched": 60 fits to 2000 images each, curves after each batch.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.linalg import LinAlgWarning, solve

sys.path.insert(0, str(Path(__file__).parent.parent))
from figure import curves
from record import peak_mib, record

from datassay.polynomial import (
    Monomials,
    NormalEquations,
    Polynomial,
    exact_fit,
    fit_polynomial,
    local_monomials,
    normal_equations,
)
from polynomial import PAPER, SETS, images

MAGNITUDE = {  # Table 3.7: L1 and L2 of the exact fit, of the batched fit
    "mnist": ((1.9e9, 1.6e10), (5.7e-3, 9.6e-3)),
    "fashion_mnist": ((1.4e7, 6.9e7), (8.4e-3, 1.3e-2)),
}
IN_SAMPLE = {"mnist": 98.66, "fashion_mnist": 94.39}  # Table 3.6


def main() -> None:
    which, names = sys.argv[1], sys.argv[2:3] or SETS
    n = int(sys.argv[3]) if len(sys.argv) > 3 else 60_000
    for name in names:
        {"exact": exact, "batched": batched}[which](name, n)


def exact(name: str, n: int) -> None:
    (x, y), (x_test, y_test) = images(name, n)
    monomials = local_monomials((28, 28), degree=2, window=3)
    store = os.environ.get("S3_STORE")
    normal = normal_equations(
        x,
        np.eye(10)[y],
        monomials,
        precision="float64",
        store=None if store is None else Path(store) / f"{name}-{n}",
        progress=told,
    )
    for fit in ("chosen", "elimination", "minimum norm"):
        start = time.perf_counter()
        coef, figures = fitted(fit, normal)
        figures["seconds"] = time.perf_counter() - start
        found = Polynomial(monomials, coef)
        figures |= {
            f"{part}_accuracy": 100 * float((found.outputs(v).argmax(1) == label).mean())
            for part, v, label in (("in_sample", x, y), ("out_of_sample", x_test, y_test))
        }
        record(
            f"papers/s3_fit/{name} {fit}",
            n=n,
            live=len(normal.live),
            **figures,
            magnitude=magnitude(found),
            peak_mib=peak_mib(),
            paper_accuracy=(IN_SAMPLE[name], PAPER[name][0]),
            paper_magnitude=MAGNITUDE[name][0],
        )


def fitted(fit: str, normal: NormalEquations) -> tuple[np.ndarray, dict[str, object]]:
    """Coefficients [p, q] of all scaled features, and what else the fit tells."""
    coef = np.zeros((normal.monomials.n_features, 10))
    if fit == "elimination":
        coef[normal.live], warning = eliminated(normal)
        return coef, {"warning": warning}
    found = exact_fit(normal, 0 if fit == "minimum norm" else "auto", progress=told)
    coef[normal.live] = found.coef
    if found.path is None:
        return coef, {"ridge": 0.0, "rank": found.rank, "notes": found.notes}
    path = found.path
    return coef, {
        "ridge": found.ridge,
        "path_ridge": path.ridge,
        "path_squared_error": path.squared_error,
        "path_class_error": path.class_error,
    }


def eliminated(normal: NormalEquations) -> tuple[np.ndarray, str]:
    """S3's features: each ordered pair once, the constant, no weights; live ones only.

    Gaussian elimination of singular equations ends at some solution, far from the smallest; what
    comes back is its sum over both orders, as coefficients of our features.
    """
    copies = np.rint(normal.monomials.scale[normal.live] ** 2).astype(int)
    owner = np.repeat(np.arange(len(copies)), copies)
    weight = 1 / np.sqrt(copies[owner])
    gram = normal.gram + np.triu(normal.gram, 1).T
    ordered = gram[np.ix_(owner, owner)] * weight[:, None] * weight
    del gram
    rng = np.random.default_rng(0)
    for row in ordered:  # a library rounds both orders' sums each its own way: the last bit
        row *= 1 + np.finfo(float).eps * rng.integers(-1, 2, len(row))
    with warnings.catch_warnings(record=True) as told_of:
        warnings.simplefilter("always", LinAlgWarning)
        found = solve(
            ordered, normal.cross[owner] * weight[:, None], overwrite_a=True, assume_a="gen"
        )
    ELIMINATED.append(found[1:])
    summed = np.zeros((len(copies), found.shape[1]))
    np.add.at(summed, owner, found * weight[:, None])
    return summed, "; ".join(str(w.message) for w in told_of)


ELIMINATED: list[np.ndarray] = []  # coefficients of both orders, before they are summed


def magnitude(found: Polynomial) -> tuple[float, float]:
    """L1 and L2 of (3.17) and (3.18) over S3's 18 740 coefficients of each class."""
    if ELIMINATED:
        values = ELIMINATED.pop()
    else:
        copies = np.rint(found.monomials.scale**2).astype(int)
        values = np.repeat(found.monomial_coef / copies[:, None], copies, axis=0)[1:]
    return float(np.abs(values - np.median(values)).mean()), float(values.std())


def batched(name: str, n: int) -> None:
    (x, y), (x_test, y_test) = images(name, n)
    monomials: Monomials = local_monomials((28, 28), degree=2, window=3)
    start = time.perf_counter()
    val = (x_test, np.eye(10)[y_test])
    found = fit_polynomial(x, np.eye(10)[y], monomials, solver="batched", val=val, progress=told)
    seconds = time.perf_counter() - start
    accuracy = {
        part: 100 * float((found.polynomial.outputs(v).argmax(1) == label).mean())
        for part, v, label in (("in_sample", x, y), ("out_of_sample", x_test, y_test))
    }
    curve = found.curve
    record(
        f"papers/s3_fit/{name} batched",
        n=n,
        seconds=seconds,
        single=100 * curve.single.mean(),
        in_sample_accuracy=accuracy["in_sample"],
        out_of_sample_accuracy=accuracy["out_of_sample"],
        out_of_bag=100 * curve.out_of_bag[-1],
        magnitude=magnitude(found.polynomial),
        paper_accuracy=PAPER[name][1],
        paper_magnitude=MAGNITUDE[name][1],
    )
    at = np.arange(1, len(curve.single) + 1)
    lines = {"one batch": curve.single, "average so far": curve.cumulative}
    draw(f"s3_batches_{name}", "Fig. 3.11: accuracy on 2000 test images", at, lines)
    lines = {
        "in sample": curve.in_sample,
        "out of sample": curve.cumulative,
        "out of bag": curve.out_of_bag,
    }
    draw(f"s3_batches_samples_{name}", "Fig. 3.12: accuracy of the average so far", at, lines)


def draw(name: str, title: str, at: np.ndarray, lines: dict[str, np.ndarray]) -> None:
    some = {label: ~np.isnan(v) for label, v in lines.items()}
    shown = {label: (at[some[label]], 100 * v[some[label]]) for label, v in lines.items()}
    curves(name, title, shown, x_title="batches", y_title="accuracy (%)")


def told(step: str, done: int, total: int) -> None:
    print(step, done, "of", total, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
