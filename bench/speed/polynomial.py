"""Local polynomials of degree 2 on all images, from the files to test accuracy.

Every case runs in a fresh process; OMP_NUM_THREADS=2. The seconds recorded count imports too.
"product" is a plain float32 product with as many rows and columns as there are images and features,
dead ones too: 2 n p² operations, nothing read, nothing solved. scikit-learn's own best routes are
timed on 20 000 images and 2343 features of their 14 x 14 means, which they can hold: RidgeCV, which
chooses among the same number of ridges by the same leave-one-out errors, and Ridge by Cholesky with
one given; ours on the same compared with them.

"batched by class" is S3's reading: it chooses the coefficients of each class "independently", so
that every class draws batches of its own, ten times the work; targets are -1 and 1.
"""

import time
from functools import partial

import numpy as np
from bench.data import folder
from bench.frame import Case, Options, Row, Task
from scipy.linalg.blas import sgemm
from sklearn.linear_model import Ridge, RidgeCV

from datassay.data import read_idx_folder
from datassay.polynomial import Polynomial, fit_polynomial, local_monomials

BY_CLASS = "batched by class"
CASES = ("exact", "batched", BY_CLASS, "product", "scikit-learn RidgeCV", "scikit-learn Ridge",
         "ours small")  # fmt: skip
SETS = ("mnist", "fashion_mnist")
N, N_SMALL = 60_000, 20_000
PAPER = {"mnist": (95.81, 96.51), "fashion_mnist": (87.88, 87.32)}
MAGNITUDE = {"mnist": (5.7e-3, 9.6e-3), "fashion_mnist": (8.4e-3, 1.3e-2)}  # Table 3.7, batched


def images(name: str, n: int = N):
    """Training and test images as rows of numbers in [0, 1], and labels."""
    source = read_idx_folder(folder(name))
    parts = [(np.asarray(p.x).reshape(len(p.x), -1), p.y) for p in (source.train, source.val)]
    return (parts[0][0][:n], parts[0][1][:n]), parts[1]


def fitted(name: str, case: str, options: Options) -> dict[str, object]:
    small, n = case not in CASES[:3], options.value("images", N)
    (x, y), (x_test, y_test) = images(name, min(n, N_SMALL) if small else n)
    side = 14 if small else 28
    if small:
        x, x_test = (v.reshape(-1, 14, 2, 14, 2).mean((2, 4)).reshape(-1, 196) for v in (x, x_test))
    monomials = local_monomials((side, side), degree=2, window=3)
    if case.startswith("scikit"):
        outputs, reported = baseline(case, monomials, x, y, x_test)
    elif case == BY_CLASS:
        outputs, reported = by_class(monomials, x, y, x_test)
        reported["paper_magnitude"] = MAGNITUDE[name]
    else:
        solver = "batched" if case == "batched" else "exact"
        val = (x_test, np.eye(10)[y_test])
        polynomial = fit_polynomial(x, np.eye(10)[y], monomials, solver=solver, val=val)
        reported = {
            "ridge": polynomial.ridge,
            "live": len(polynomial.live),
            "notes": polynomial.notes,
        }
        if polynomial.path is not None:
            reported |= {"poles": polynomial.path.poles, "ridges": len(polynomial.path.ridge)}
        outputs = polynomial.polynomial.outputs(x_test, dtype=np.float32)
    accuracy = 100 * float((outputs.argmax(axis=1) == y_test).mean())
    reported |= {"n": len(x), "features": monomials.n_features, "accuracy": accuracy}
    return reported if small else reported | {"paper_accuracy": PAPER[name][case != "exact"]}


def by_class(monomials, x, y, x_test):
    """Ten averages of fits, one per class; L1 and L2 (eqs. 3.17, 3.18) of S3's coefficients."""
    fits = [
        fit_polynomial(x, 2.0 * (y == c)[:, None] - 1, monomials, solver="batched", seed=c)
        for c in range(10)
    ]
    polynomial = Polynomial(monomials, np.hstack([fit.polynomial.coef for fit in fits]))
    # S3 has both orders of a pair as features, each with half of the coefficient; no constant.
    copies = np.rint(monomials.scale**2).astype(int)
    values = np.repeat(polynomial.monomial_coef / copies[:, None], copies, axis=0)[1:]
    sizes = float(np.abs(values - np.median(values)).mean()), float(values.std())
    outputs = polynomial.outputs(x_test, dtype=np.float32)
    return outputs, {"live": len(fits[0].live), "magnitude": sizes}


def baseline(case: str, monomials, x, y, x_test):
    """scikit-learn's fit of the same features, and what it chose; features are part of the time."""
    features, test = (monomials.features(v, dtype=np.float32)[:, 1:] for v in (x, x_test))
    if case.endswith("RidgeCV"):
        model = RidgeCV(alphas=np.geomspace(1e-3, 1e7, 41)).fit(features, np.eye(10)[y])
        return model.predict(test), {"ridge": float(model.alpha_), "ridges": 41}
    model = Ridge(10.0, solver="cholesky").fit(features, np.eye(10)[y])
    return model.predict(test), {"ridge": 10.0, "ridges": 1}


def product(options: Options) -> dict[str, object]:
    """2 n p² operations in chunks; the two factors differ, or libraries would halve the work."""
    n, p, chunk = options.value("images", N), 10_155, 2000
    left, right = (np.random.default_rng(s).random((chunk, p), np.float32) for s in (0, 1))
    left, right = np.asfortranarray(left), np.asfortranarray(right)
    total = np.zeros((p, p), np.float32, order="F")
    start = time.perf_counter()
    for _ in range(n // chunk):
        total = sgemm(1.0, left, right, beta=1.0, c=total, trans_a=1, overwrite_c=1)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "n": n, "features": p, "gigaflops": 2e-9 * n * p * p / seconds}


def rows(lines: dict[str, dict]) -> list[Row]:
    shown = ("exact", "batched", "product")
    sets = [{c: lines[f"polynomial/{s}/{c}"] for c in shown} for s in SETS]
    own = lines[f"polynomial/fashion_mnist/{BY_CLASS}"]
    sizes = [
        ", ".join(f"{v:.1e}" for v in own[name]).replace("e-0", "e-")
        for name in ("magnitude", "paper_magnitude")
    ]
    theirs, small = (lines[f"polynomial/mnist/{c}"] for c in ("scikit-learn RidgeCV", "ours small"))
    return [
        Row(
            "Local polynomial of degree 2 (10 155 features) on 60 000 images, files to test "
            "accuracy in %, MNIST and Fashion-MNIST: exact, ridge by leave-one-out (batched 60 x "
            "2000; S3's exact, batched)",
            "; ".join(
                f"{x['exact']['accuracy']:.2f} ({x['batched']['accuracy']:.2f}; "
                f"{x['exact']['paper_accuracy']:.2f}, {x['batched']['paper_accuracy']:.2f})"
                for x in sets
            ),
        ),
        Row(
            "The same fits, seconds and peak memory of the exact one (batched; a float32 product "
            "with 2 n p² operations alone)",
            "; ".join(
                f"{x['exact']['seconds']:.0f} s, {x['exact']['peak_mib'] / 1024:.1f} GiB "
                f"({x['batched']['seconds']:.0f} s; {x['product']['seconds']:.0f} s)"
                for x in sets
            ),
        ),
        Row(
            "Fashion-MNIST, batched, each class from batches of its own as S3's text has it, "
            "targets of ±1: accuracy in %; L1 and L2 of the coefficients (S3's Table 3.7)",
            f"{own['accuracy']:.2f} ({own['paper_accuracy']:.2f}); {sizes[0]} ({sizes[1]})",
        ),
        Row(
            "20 000 images, 2343 features, against scikit-learn's RidgeCV",
            f"{theirs['seconds'] / small['seconds']:.0f} times faster, accuracy "
            f"{small['accuracy']:.1f} ({theirs['accuracy']:.1f})",
        ),
    ]


TASK = Task(
    measure="polynomials of all images",
    cases={
        f"{name}/{case}": Case(
            product if case == "product" else partial(fitted, name, case), fresh=True
        )
        for name in SETS
        for case in CASES
    },
    lines="polynomial/",
    rows=rows,
)
