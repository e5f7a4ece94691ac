"""S3 Figs 3.19 and 3.20: what the polynomials of all 60 000 images weigh where.

    DATASSAY_CACHE=folder python papers/s3_maps.py [batched] [exact] [mnist] [fashion_mnist]

The fits are those of s3_surrogates.py, made there where the cache lacks them. What the thesis reads
off its figures is measured: how noisy the maps of both degrees are, whether pairs weigh less at the
borders of a garment than inside it, and whether the holes of an 8 stand out.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from figure import galleries
from record import record
from s3_surrogates import BATCHED, DATA, MONOMIALS, coefficients
from tasks import idx_images

from datassay.polynomial import CoefMaps, Polynomial, coef_maps
from datassay.report import heat_image, heat_limit

FITS = {"batched": BATCHED, "exact": "leave-one-out ridge"}
SHAPE = (28, 28)
GARMENTS = {"trouser": 1, "pullover": 2, "sneaker": 7}
NAMES = {
    "mnist": tuple("0123456789"),
    "fashion_mnist": (
        "T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag",
        "boot",
    ),
}  # fmt: skip


def roughness(maps: np.ndarray) -> float:
    """1 minus the correlation of neighbouring cells, the mean over classes: 1 is white noise."""
    pairs = [
        (np.r_[m[:, :-1].ravel(), m[:-1].ravel()], np.r_[m[:, 1:].ravel(), m[1:].ravel()])
        for m in maps
    ]
    return 1 - float(np.mean([np.corrcoef(a, b)[0, 1] for a, b in pairs]))


def inside_and_border(mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Masks of a class: the brightest quarter of its mean image, and the steepest quarter."""
    steep = np.hypot(*np.gradient(mean))
    inside = mean >= np.quantile(mean, 0.75)
    border = steep >= np.quantile(steep, 0.75)
    return inside & ~border, border & ~inside


def garments(maps: CoefMaps, means: np.ndarray) -> dict[str, tuple[float, float]]:
    """Mean B of eq. (3.28) inside and at the border, in standard deviations of the class's map."""
    found = {}
    for name, c in GARMENTS.items():
        b = maps.degree_2_floored[c] / maps.degree_2_floored[c].std()
        inside, border = inside_and_border(means[c])
        found[name] = (float(b[inside].mean()), float(b[border].mean()))
    return found


def holes_of_8(maps: CoefMaps, means: np.ndarray) -> tuple[float, float]:
    """Mean degree-1 coefficient of 8 in its holes and on its strokes, in standard deviations.

    Holes: pixels of the middle columns that are darker than their neighbours left and right in the
    mean 8, yet inside it; strokes: its brightest quarter without them.
    """
    mean, b = means[8], maps.degree_1[8] / maps.degree_1[8].std()
    sides = np.minimum(
        np.maximum.accumulate(mean, 1), np.maximum.accumulate(mean[:, ::-1], 1)[:, ::-1]
    )
    holes = sides - mean > 0.1
    strokes = (mean >= np.quantile(mean, 0.75)) & ~holes
    return float(b[holes].mean()), float(b[strokes].mean())


def figure(name: str, title: str, values: np.ndarray, names: tuple[str, ...]) -> None:
    """Ten maps on one scale."""
    limit = heat_limit(values)
    pictures = [(heat_image(v, limit), n) for v, n in zip(values, names, strict=True)]
    label = f"orange raises the output, blue lowers it; colours end at ±{limit:.2g}"
    galleries(name, title, {label: pictures})


def maps_of(data: str, fit: str) -> CoefMaps:
    """The maps of one fit."""
    return coef_maps(Polynomial(MONOMIALS, coefficients(data, FITS[fit])))


def report(data: str, fit: str, means: np.ndarray) -> None:
    """Both figures of one fit, and what the thesis reads off them."""
    maps = maps_of(data, fit)
    figure(f"s3_maps_3_19_{data}_{fit}", f"{data}, {fit}: degree 1", maps.degree_1, NAMES[data])
    title = f"{data}, {fit}: degree 2, eq. (3.28)"
    figure(f"s3_maps_3_20_{data}_{fit}", title, maps.degree_2_floored, NAMES[data])
    read: dict[str, object] = {"holes_of_8_and_strokes": holes_of_8(maps, means)}
    if data == "fashion_mnist":
        read = {"inside_and_border": garments(maps, means)}
    record(
        f"papers/s3_maps/{data}, {fit}",
        roughness_1=roughness(maps.degree_1),
        roughness_2=roughness(maps.degree_2_floored),
        **read,
    )


def main() -> None:
    asked = sys.argv[1:]
    for data in [d for d in DATA if d in asked] or DATA:
        x, y = idx_images(data)
        means = np.stack([x[y == c].reshape(-1, *SHAPE).mean(axis=0) for c in range(10)])
        for fit in [f for f in FITS if f in asked] or FITS:
            report(data, fit, means)


if __name__ == "__main__":
    main()
