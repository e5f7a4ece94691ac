"""Figs 3.6-3.10 and Table 3.4: polynomials of principal components and of cosine coefficients.

    python papers/s3_encodings.py [cosines] [quadratic] [cubic] [encoded]

All 60 000 images. "quadratic" and "cubic" are of the first principal components: one Gram matrix
of the most components holds those of all fewer. "encoded" is quadratic in cosine coefficients.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from figure import curves, galleries, maps
from record import peak_mib, record
from sklearn.decomposition import PCA
from tasks import idx_images

from datassay.data import SampleSet
from datassay.polynomial import (
    NormalEquations,
    Polynomial,
    all_monomials,
    cosine_coefficients,
    cosine_encoding,
    fit_normal_equations,
    largest,
    normal_equations,
)
from datassay.report import draw

DATA = ("mnist", "fashion_mnist")
SHAPE = (28, 28)
COMPONENTS = {2: (10, 20, 30, 40, 50, 60, 70), 3: (10, 20, 30)}
THEIR_FACTOR = {"mnist": 0.373, "fashion_mnist": 0.456}  # Table 3.4


def rows(data: str, part: str = "train") -> tuple[np.ndarray, np.ndarray]:
    x, y = idx_images(data, part)
    return x.reshape(len(x), -1), y


def cosines(data: str) -> None:
    """Table 3.4, Figs 3.8-3.10."""
    x, _ = rows(data)
    start = time.perf_counter()
    encoding = cosine_encoding(x, SHAPE)
    seconds = time.perf_counter() - start
    kept = encoding.encode(x[:4000])
    lost = x[:4000] - encoding.decode(kept)
    shares = np.arange(0.10, 0.161, 0.005)
    some = x[:10_000]
    factors = [cosine_encoding(some, SHAPE, share=float(s)).factor for s in shares]
    nearest = int(np.abs(np.array(factors) - THEIR_FACTOR[data]).argmin())
    record(
        f"papers/s3_encodings/cosines, {data}",
        coordinates=len(encoding.coordinates),
        factor=encoding.factor,
        lost_energy=(lost**2).sum() / (x[:4000] ** 2).sum(),
        share_of_their_factor=shares[nearest],
        seconds=seconds,
    )
    coef = cosine_coefficients(x[:6], SHAPE)
    cut = np.where(largest(coef, 0.1), coef, 0)
    shown = {
        "image": x[:6],
        "log of coefficients": _grey(np.log1p(np.abs(coef))),
        "the largest 10 %": _grey(np.log1p(np.abs(cut))),
        "decoded": encoding.decode(encoding.encode(x[:6])).clip(0, 1),
    }
    title = f"{data}: cosine coefficients, thresholded, decoded"
    galleries(f"s3_fig3_9_{data}", title, {k: pictures(v) for k, v in shown.items()})
    frequency = encoding.frequency.reshape(SHAPE)[::-1]  # the map's first row is the lowest
    ticks = list(range(28))
    maps(
        f"s3_fig3_10_{data}",
        f"{data}: share of images that keep a coordinate",
        {"": (frequency, ticks[::-1], ticks, "column frequency")},
    )


def quadratic(data: str) -> None:
    _of_components(data, 2)


def cubic(data: str) -> None:
    _of_components(data, 3)


def _of_components(data: str, degree: int) -> None:
    """Figs 3.6 and 3.7."""
    x, y = rows(data)
    test, y_test = rows(data, "test")
    sizes = COMPONENTS[degree]
    start = time.perf_counter()
    pca = PCA(sizes[-1], svd_solver="covariance_eigh").fit(x)
    found = accuracies(
        (pca.transform(x), y), (pca.transform(test), y_test), sizes, degree
    )  # seconds hold the components too
    record(
        f"papers/s3_encodings/degree {degree} of components, {data}",
        components=sizes,
        **found,
        explained=pca.explained_variance_ratio_.cumsum()[np.array(sizes) - 1],
        seconds=time.perf_counter() - start,
        peak_mib=peak_mib(),
    )
    if degree == 2:
        galleries(f"s3_fig3_7_{data}", "First 9 components", {
            data: pictures(_grey(pca.components_[:9]))
        })  # fmt: skip
        lines = {part: (sizes, 100 * np.array(found[part])) for part in ("in", "out")}
        title = f"{data}: degree 2 of principal components"
        curves(f"s3_fig3_6_{data}", title, lines, x_title="components", y_title="accuracy %")


def encoded(data: str) -> None:
    """Degree 2 of the 70 most frequent cosine coefficients, with and without thresholding."""
    x, y = rows(data)
    test, y_test = rows(data, "test")
    for share in (0.1, 1.0):
        # The same coordinates for both: those that are most often among the largest 10 %.
        encoding = replace(cosine_encoding(x, SHAPE, n_coordinates=70), share=share)
        start = time.perf_counter()
        found = accuracies(
            (encoding.encode(x), y), (encoding.encode(test), y_test), (70,), 2
        )  # seconds hold the encoding too
        record(
            f"papers/s3_encodings/degree 2 of 70 cosines, share {share}, {data}",
            **found,
            seconds=time.perf_counter() - start,
        )


def accuracies(
    train: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    sizes: Sequence[int],
    degree: int,
) -> dict[str, list[float]]:
    """In and out of sample, of the first columns, each with its own leave-one-out ridge.

    Columns are divided by their deviations: without that, float32 sums of products hold no ridge
    small enough (Fashion-MNIST, 70 components: 85.9 % out of sample).
    """
    scale = train[0].std(axis=0)
    train, test = ((z / scale, labels) for z, labels in (train, test))
    x, y = train
    normal = normal_equations(x, np.eye(10)[y], all_monomials(x.shape[1], degree))
    found: dict[str, list[float]] = {"features": [], "ridge": [], "in": [], "out": []}
    for size in sizes:
        fit = fit_normal_equations(_first(normal, size, degree))
        found["features"].append(fit.polynomial.monomials.n_features)
        found["ridge"].append(fit.ridge or 0.0)
        for part, (inputs, labels) in (("in", train), ("out", test)):
            found[part].append(_accuracy(fit.polynomial, inputs[:, :size], labels))
    return found


def _first(normal: NormalEquations, size: int, degree: int) -> NormalEquations:
    """The equations of the monomials of the first inputs only: a part of those of all."""
    if size == normal.monomials.n_inputs:
        return normal
    assert len(normal.live) == normal.monomials.n_features
    part = np.flatnonzero((normal.monomials.terms < size).all(axis=1))
    return replace(
        normal,
        monomials=all_monomials(size, degree),
        live=np.arange(len(part)),
        gram=np.asfortranarray(normal.gram[np.ix_(part, part)]),
        cross=normal.cross[part],
        feature_sum=normal.feature_sum[part],
        rows=normal.rows[:, :size],
    )


def _accuracy(polynomial: Polynomial, x: np.ndarray, y: np.ndarray) -> float:
    return float((polynomial.outputs(x, dtype=np.float32).argmax(axis=1) == y).mean())


def pictures(images: np.ndarray) -> list[tuple[str, str]]:
    """Grey values in [0, 1], [n, d], as data URIs."""
    n = len(images)
    x = images.reshape(n, 1, *SHAPE).astype(np.float32)
    samples = SampleSet(
        x, np.zeros(n, dtype=int), np.arange(n), class_names=("0", "1"), kind="image"
    )
    return [(p.image, "") for p in draw(samples, np.arange(n))]


def _grey(values: np.ndarray) -> np.ndarray:
    low = values.min(axis=1, keepdims=True)
    return (values - low) / (values.max(axis=1, keepdims=True) - low)


STEPS: dict[str, Callable[[str], None]] = {
    "cosines": cosines,
    "quadratic": quadratic,
    "cubic": cubic,
    "encoded": encoded,
}


def main() -> None:
    for step in sys.argv[1:] or STEPS:
        for data in DATA:
            STEPS[step](data)


if __name__ == "__main__":
    main()
