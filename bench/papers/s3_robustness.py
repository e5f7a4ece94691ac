"""Figs 3.21-3.24: polynomials and convolutional networks on noisy and on patched test images.

    DATASSAY_CACHE=folder python papers/s3_robustness.py [data ...]

Those models are measured that s3_surrogates.py and s3_networks.py have put into the cache.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import s3_networks
from figure import curves, galleries
from record import record
from s3_surrogates import DATA, NAMES, Surrogates, is_fitted
from tasks import idx_images

from datassay.data import SampleSet, add_noise, add_patches
from datassay.report import draw
from datassay.score import Predictor, Robustness, robustness

# S3 prints no ranges; its text speaks of σ = 0.3 and of A = 55 and 100.
LEVELS = {"noise": (0.05, 0.1, 0.2, 0.3, 0.4, 0.5), "patches": (10, 25, 55, 100, 150, 200)}
FIGURE = {"noise": "3_23", "patches": "3_24"}
AXIS = {"noise": "noise σ", "patches": "patch area A, pixels"}
DRAWS = 1  # each of the 10 000 images has its own; intervals hold both
SHORT = ("leave-one-out ridge", "batched 60 x 2000", *s3_networks.NETWORKS)


def measured(data: str, corruption: str) -> Robustness:
    """All models on the same images; what a model gets right is kept in the cache."""
    fitted = [name for name in NAMES if is_fitted(data, name)]
    trained = [name for name in s3_networks.NETWORKS if s3_networks.is_trained(name, data)]
    missing = [name for name in fitted if not _kept(data, corruption, name).exists()]
    if missing:
        shared = Surrogates(data, missing)
        _measure(data, corruption, {name: partial(shared.labels, name) for name in missing})
    for name in trained:
        if not _kept(data, corruption, name).exists():
            model = s3_networks.trained(name, data)
            _measure(data, corruption, {name: partial(s3_networks.labels, model)})
    names = (*fitted, *trained)
    hits = [np.load(_kept(data, corruption, name))["hits"].astype(float) for name in names]
    levels = np.array([0.0, *LEVELS[corruption]])
    return Robustness(corruption, names, levels, np.stack(hits))


def _measure(data: str, corruption: str, predictors: dict[str, Predictor]) -> None:
    """The same seed gives every model the same images."""
    x, y = idx_images(data, "test")
    levels = LEVELS[corruption]
    found = robustness(predictors, x, y, corruption=corruption, levels=levels, draws=DRAWS)
    for name, hits in zip(found.names, found.hits, strict=True):
        np.savez_compressed(_kept(data, corruption, name), hits=hits.astype(np.float32))


def _kept(data: str, corruption: str, name: str) -> Path:
    folder = Path(os.environ["DATASSAY_CACHE"])
    return folder / f"s3 hits {data} {corruption} {name} {DRAWS}.npz"


def report(data: str, found: Robustness) -> None:
    """One line of figures, and the two figures."""
    networks = [name for name in found.names if name not in NAMES]
    differences = {
        f"{name} less {network}": [_plain(part) for part in found.drop_difference(name, network)]
        for network in networks
        for name in found.names
        if name != network
    }
    by_name = {
        what: {name: _plain(row) for name, row in zip(found.names, values, strict=True)}
        for what, values in (
            ("accuracy", found.accuracy),
            ("drop", found.drop),
            ("drop_half_width", found.drop_half_width),
        )
    }
    record(
        f"papers/s3_robustness/{found.corruption}, {data}",
        levels=found.levels,
        draws=DRAWS,
        test_images=found.hits.shape[2],
        **by_name,
        drop_differences=differences,
    )
    for what, values in (("accuracy", found.accuracy), ("minus relative drop", -found.drop)):
        lines = {
            name: (found.levels, 100 * row)
            for name, row in zip(found.names, values, strict=True)
            if name in SHORT
        }
        curves(
            f"s3_fig{FIGURE[found.corruption]}_{data}_{what.split()[-1]}",
            f"{data.replace('_', '-')}: {what} (%)",
            lines,
            x_title=AXIS[found.corruption],
            y_title="%",
        )


def _plain(values: np.ndarray) -> list[float]:
    return [round(float(value), 5) for value in values]


def examples() -> None:
    """Figs 3.21 and 3.22."""
    for figure, corrupt, level, label in (
        ("3_21", add_noise, 0.3, "σ = 0.3"),
        ("3_22", add_patches, 100.0, "A = 100"),
    ):
        rows = {}
        for data in DATA:
            x, y = idx_images(data, "test")
            some = corrupt(x[:8], level)
            shown = SampleSet(
                some, y[:8], np.arange(8), class_names=tuple("0123456789"), kind="image", name=data
            )
            rows[f"{data}, {label}"] = [(p.image, "") for p in draw(shown, np.arange(8))]
        galleries(f"s3_fig{figure}", f"Corrupted test images, {label}", rows)


def main() -> None:
    examples()
    for data in sys.argv[1:] or DATA:
        for corruption in LEVELS:
            report(data, measured(data, corruption))


if __name__ == "__main__":
    main()
