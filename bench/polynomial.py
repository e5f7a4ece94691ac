"""Local polynomials of degree 2 on all images, from the files to test accuracy.

    python polynomial.py [mnist|fashion_mnist [case [images]]]

Every case runs in a fresh process with two threads; seconds count from its first line, imports
too. "product" is a plain float32 product with as many rows and columns as there are images and
features, dead ones too: 2 n p² operations, nothing read, nothing solved. scikit-learn's own best
routes are timed on 20 000 images and 2343 features of their 14 x 14 means, which they can hold:
RidgeCV, which chooses among the same number of ridges by the same leave-one-out errors, and Ridge
by Cholesky with one given; ours on the same beside them.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time

START = time.perf_counter()
CASES = ("exact", "batched", "product", "scikit-learn RidgeCV", "scikit-learn Ridge", "ours small")
SETS = ("mnist", "fashion_mnist")
N, N_SMALL = 60_000, 20_000
PAPER = {"mnist": (95.81, 96.51), "fashion_mnist": (87.88, 87.32)}


def main() -> None:
    if len(sys.argv) > 2:
        one(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else N)
        return
    for name in sys.argv[1:] or SETS:
        for case in CASES:
            threads = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
            command = [sys.executable, __file__, name, case]
            subprocess.run(command, check=True, env=os.environ | threads)


def one(name: str, case: str, n: int) -> None:
    found = product(n) if case == "product" else fitted(name, case, n)
    seconds = found.pop("seconds", None) or time.perf_counter() - START
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    from record import record  # imports torch, which is no part of what is measured

    record(f"polynomial/{name}/{case}", seconds=seconds, peak_mib=peak_mib, **found)


def images(name: str, n: int):
    """Training and test images as rows of numbers in [0, 1], and labels."""
    from pathlib import Path

    import numpy as np

    from datassay.data import read_idx_folder

    source = read_idx_folder(Path(os.environ["DATASSAY_DATA"]) / name)
    parts = [(np.asarray(p.x).reshape(len(p.x), -1), p.y) for p in (source.train, source.val)]
    return (parts[0][0][:n], parts[0][1][:n]), parts[1]


def fitted(name: str, case: str, n: int) -> dict[str, object]:
    import numpy as np

    from datassay.polynomial import fit_polynomial, local_monomials

    small = case not in CASES[:2]
    (x, y), (x_test, y_test) = images(name, min(n, N_SMALL) if small else n)
    side = 14 if small else 28
    if small:
        x, x_test = (v.reshape(-1, 14, 2, 14, 2).mean((2, 4)).reshape(-1, 196) for v in (x, x_test))
    monomials = local_monomials((side, side), degree=2, window=3)
    read = time.perf_counter() - START
    if case.startswith("scikit"):
        outputs, told = rival(case, monomials, x, y, x_test)
    else:
        solver = "batched" if case == "batched" else "exact"
        val = (x_test, np.eye(10)[y_test])
        found = fit_polynomial(x, np.eye(10)[y], monomials, solver=solver, val=val)
        told = {"ridge": found.ridge, "live": len(found.live), "notes": found.notes}
        if found.path is not None:
            told |= {"poles": found.path.poles, "ridges": len(found.path.ridge)}
        outputs = found.polynomial.outputs(x_test, dtype=np.float32)
    accuracy = 100 * float((outputs.argmax(axis=1) == y_test).mean())
    told |= {"n": len(x), "features": monomials.n_features, "accuracy": accuracy, "read": read}
    if not small:
        told["paper_accuracy"] = PAPER[name][case == "batched"]
    return told


def rival(case: str, monomials, x, y, x_test):
    """scikit-learn's fit of the same features, and what it chose; features are part of the time."""
    import numpy as np
    from sklearn.linear_model import Ridge, RidgeCV

    features, test = (monomials.features(v, dtype=np.float32)[:, 1:] for v in (x, x_test))
    if case.endswith("RidgeCV"):
        model = RidgeCV(alphas=np.geomspace(1e-3, 1e7, 41)).fit(features, np.eye(10)[y])
        return model.predict(test), {"ridge": float(model.alpha_), "ridges": 41}
    model = Ridge(10.0, solver="cholesky").fit(features, np.eye(10)[y])
    return model.predict(test), {"ridge": 10.0, "ridges": 1}


def product(n: int) -> dict[str, object]:
    """2 n p² operations in chunks; the two factors differ, or libraries would halve the work."""
    import numpy as np
    from scipy.linalg.blas import sgemm

    p, chunk = 10_155, 2000
    left, right = (np.random.default_rng(s).random((chunk, p), np.float32) for s in (0, 1))
    left, right = np.asfortranarray(left), np.asfortranarray(right)
    total = np.zeros((p, p), np.float32, order="F")
    start = time.perf_counter()
    for _ in range(n // chunk):
        total = sgemm(1.0, left, right, beta=1.0, c=total, trans_a=1, overwrite_c=1)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "n": n, "features": p, "gigaflops": 2e-9 * n * p * p / seconds}


if __name__ == "__main__":
    main()
