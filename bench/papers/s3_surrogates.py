"""The polynomials of S3 on all 60 000 images, fitted once and kept: exact with ridges, and batched.

    DATASSAY_CACHE=folder python papers/s3_surrogates.py [batched] [exact]

Products of 3 x 3 windows, degree 2: 10 155 features. One Gram matrix serves all ridges.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from record import record
from tasks import idx_images

from datassay.polynomial import (
    Polynomial,
    fit_normal_equations,
    fit_polynomial,
    local_monomials,
    normal_equations,
)

DATA = ("mnist", "fashion_mnist")
MONOMIALS = local_monomials((28, 28), degree=2, window=3)
# S3 has none; 0.1 is the smallest that float32 sums were checked with.
RIDGES = {
    "ridge 0.1": 0.1,
    "leave-one-out ridge": "auto",
    "ridge 100": 100.0,
    "ridge 3e3": 3e3,
    "ridge 1e5": 1e5,
}
BATCHED = "batched 60 x 2000"
NAMES = (*RIDGES, BATCHED)


class Surrogates:
    """Several polynomials of one data set; features of the same images are computed once."""

    def __init__(self, data: str, names: Sequence[str]):
        self.names = tuple(names)
        coefs = [np.load(_kept(data, name))["coef"] for name in names]
        self._together = Polynomial(MONOMIALS, np.concatenate(coefs, axis=1))
        self._x = self._outputs = None

    def labels(self, name: str, x: np.ndarray) -> np.ndarray:
        """Predicted classes of images in [0, 1]."""
        if self._x is not x:
            rows = x.reshape(len(x), -1)
            self._x, self._outputs = x, self._together.outputs(rows, dtype=np.float32)
        assert self._outputs is not None
        first = 10 * self.names.index(name)
        return self._outputs[:, first : first + 10].argmax(axis=1)


def is_fitted(data: str, name: str) -> bool:
    """Whether the cache holds that fit."""
    return _kept(data, name).exists()


def fit(data: str, solver: str) -> None:
    """The fits of one data set that the cache lacks."""
    images, y = idx_images(data)
    x, targets = images.reshape(len(y), -1), np.eye(10)[y]
    if solver == "batched":
        if not _kept(data, BATCHED).exists():
            start = time.perf_counter()
            found = fit_polynomial(x, targets, MONOMIALS, solver="batched")
            _keep(data, BATCHED, found.polynomial.coef, seconds=time.perf_counter() - start)
        return
    missing = [name for name in RIDGES if not _kept(data, name).exists()]
    if not missing:
        return
    normal = normal_equations(x, targets, MONOMIALS, store=_folder() / f"s3 sums {data}")
    for name in missing:
        found = fit_normal_equations(normal, RIDGES[name])
        _keep(data, name, found.polynomial.coef, ridge=found.ridge)


def _keep(data: str, name: str, coef: np.ndarray, **facts: object) -> None:
    np.savez(_kept(data, name), coef=coef)
    x, y = idx_images(data, "test")
    outputs = Polynomial(MONOMIALS, coef).outputs(x.reshape(len(x), -1), dtype=np.float32)
    record(
        f"papers/s3_surrogates/{name}, {data}",
        accuracy=(outputs.argmax(axis=1) == y).mean(),
        coefficient_l1=np.abs(coef - np.median(coef)).mean(),
        coefficient_l2=coef.std(),
        **facts,
    )


def _folder() -> Path:
    folder = Path(os.environ["DATASSAY_CACHE"])
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _kept(data: str, name: str) -> Path:
    return _folder() / f"s3 {name} {data}.npz"


def main() -> None:
    for solver in sys.argv[1:] or ("batched", "exact"):
        for data in DATA:
            fit(data, solver)


if __name__ == "__main__":
    main()
