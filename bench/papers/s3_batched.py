"""What the accuracy of S3's batched regression hangs on: one thing changed at a time.

    python papers/s3_batched.py [mnist|fashion_mnist [batches [variant ...]]]

The norm that is smallest depends on the scale of the pixels, on the weights of products, and on
whether the constant counts; batches can share images; a solver's cut-off acts as a ridge.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.linalg import cho_solve, cholesky

sys.path.insert(0, str(Path(__file__).parent.parent))
from record import record

from datassay.polynomial import Monomials, local_monomials
from polynomial import PAPER, SETS, images

SIZE = 2000
MOMENTS = {"mnist": (0.1307, 0.3081), "fashion_mnist": (0.2860, 0.3530)}


@dataclass(frozen=True)
class Variant:
    """How a batch is drawn and fitted.

    Attributes:
        pixels: of images in [0, 1] and their set's mean and spread.
        weights: of products that stand for two: 2 as S3's ordered pairs, 1 each product once.
        constant: "free", "in the norm" or "none".
        replace: whether a batch can hold an image twice.
        disjoint: whether batches are parts of a permutation, so that every image is used.
        ridge: added to the diagonal of the batch's [B, B] inner products.
        size: images in a batch.
        precision: of the features and their inner products.
        jitter: on the diagonal, a share of its mean, that stands in for no ridge.
    """

    pixels: Callable[[np.ndarray, float, float], np.ndarray] = lambda x, mean, spread: x
    weights: int = 2
    constant: str = "free"
    replace: bool = False
    disjoint: bool = False
    ridge: float = 0.0
    size: int = SIZE
    precision: type[np.floating] = np.float32
    jitter: float = 1e-7


OURS = Variant()
VARIANTS: Mapping[str, Variant] = {
    "as S3's text": OURS,
    "each product once": Variant(weights=1),
    "pixels 0 to 255": Variant(pixels=lambda x, mean, spread: 255 * x),
    "pixels standardised": Variant(pixels=lambda x, mean, spread: (x - mean) / spread),
    "pixels -1 to 1": Variant(pixels=lambda x, mean, spread: 2 * x - 1),
    "pixels -0.5 to 0.5": Variant(pixels=lambda x, mean, spread: x - 0.5),
    "constant in the norm": Variant(constant="in the norm"),
    "no constant": Variant(constant="none"),
    "batches with replacement": Variant(replace=True),
    "disjoint batches": Variant(disjoint=True),
    "ridge 1": Variant(ridge=1.0),
    "ridge 10": Variant(ridge=10.0),
    "batches of 1000": Variant(size=1000),
    "batches of 3000": Variant(size=3000),
    "batches of 4000": Variant(size=4000),
    "float64": Variant(precision=np.float64, jitter=1e-12),
}


def main() -> None:
    names = sys.argv[1:2] or SETS
    n_batches = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    for name in names:
        train, test = images(name, 60_000)
        for label in sys.argv[3:] or VARIANTS:
            figures = run(VARIANTS[label], name, train, test, n_batches)
            record(f"papers/s3_batched/{name} {label}", **figures, paper_accuracy=PAPER[name][1])


def run(variant: Variant, name: str, train, test, n_batches: int) -> dict[str, object]:
    """Accuracies of single batches, and of the average after some and after all."""
    (x, y), (x_test, y_test) = train, test
    monomials = local_monomials((28, 28), degree=2, window=3)
    if variant.weights == 1:
        monomials = replace(monomials, scale=np.ones(monomials.n_features))
    rng = np.random.default_rng(0)
    held = features(variant, name, monomials, x_test)
    outputs, single, cumulative, total = np.zeros((len(x_test), 10)), [], [], 0.0
    for b in range(n_batches):
        at = batch(variant, rng, len(x), b)
        coef, constant = fitted(
            variant, features(variant, name, monomials, x[at]), np.eye(10)[y[at]]
        )
        mine = held @ coef.astype(held.dtype) + constant
        outputs, total = outputs + mine, total + coef
        single.append(float((mine.argmax(1) == y_test).mean()))
        cumulative.append(float((outputs.argmax(1) == y_test).mean()))
    values = magnitude(total / n_batches, monomials)
    return {
        "batches": n_batches,
        "single": 100 * np.mean(single),
        "after_10": 100 * cumulative[min(9, n_batches - 1)],
        "accuracy": 100 * cumulative[-1],
        "magnitude_once": values[0],
        "magnitude_ordered": values[1],
    }


def features(variant: Variant, name: str, monomials: Monomials, x: np.ndarray) -> np.ndarray:
    return monomials.features(variant.pixels(x, *MOMENTS[name]), dtype=variant.precision)[:, 1:]


def batch(variant: Variant, rng: np.random.Generator, n: int, b: int) -> np.ndarray:
    if variant.disjoint:
        turn, part = divmod(b, n // variant.size)
        order = np.random.default_rng(turn).permutation(n)
        return order[part * variant.size : (part + 1) * variant.size]
    return rng.choice(n, variant.size, replace=variant.replace)


def fitted(variant: Variant, phi: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and constant."""
    kernel = (phi @ phi.T).astype(np.float64)
    n, scale = len(phi), float(np.trace(kernel)) / len(phi)
    if variant.constant == "free":
        kernel -= kernel.mean(axis=0)
        kernel -= kernel.mean(axis=1)[:, None]
        kernel += scale / n  # (1, ..., 1) is a null vector, and centred targets have no share in it
    elif variant.constant == "in the norm":
        kernel += 1
    kernel.flat[:: n + 1] += variant.ridge + variant.jitter * scale
    mean = targets.mean(axis=0) if variant.constant == "free" else np.zeros(10)
    weights = cho_solve((cholesky(kernel, lower=True), True), targets - mean)
    coef = (phi.T @ weights.astype(phi.dtype)).astype(np.float64)
    if variant.constant == "free":
        return coef, mean - phi.mean(axis=0, dtype=np.float64) @ coef
    return coef, weights.sum(axis=0) if variant.constant == "in the norm" else mean


def magnitude(coef: np.ndarray, monomials: Monomials) -> list[list[float]]:
    """L1 and L2 of (3.17), (3.18): of each product once, and of both orders of each pair."""
    once = coef * monomials.scale[1:, None]
    copies = np.array([len(set(term[term >= 0].tolist())) for term in monomials.terms[1:]])
    found = []
    for values in (once, np.repeat(once / copies[:, None], copies, axis=0)):
        found.append([float(np.abs(values - np.median(values)).mean()), float(values.std())])
    return found


if __name__ == "__main__":
    main()
