"""Which data source informs more (S1 Fig. 2a): MNIST and USPS, 500 of each, ten classes.

The validation set has the same mix. The paper takes MNIST and SVHN with a pretrained ResNet-18;
SVHN is not in the data folder, so USPS, which shares its classes, stands in, and the networks start
from random weights. The difference is tested by Mann and Whitney's test over the samples and by
a bootstrap of the ratio of the means; the seeds repeat it on other samples and other weights.

    python papers/s1_sources.py
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import tasks
from figure import histogram
from record import record
from scipy.stats import mannwhitneyu

import datassay as da
from datassay.data import SampleSet

SEEDS = 3
SOURCES = ("MNIST", "USPS")


def mix(seed: int) -> tuple[SampleSet, SampleSet]:
    """500 + 500 samples to train on and as many to validate on."""
    parts = [
        tasks.draw(tasks.idx_images, (500, 500), seed, "mnist"),
        tasks.draw(tasks.usps, (500, 500), seed),
    ]
    return tuple(
        SampleSet(
            np.concatenate([p.x for p in pair]),
            np.concatenate([p.y for p in pair]),
            np.arange(1000),
            class_names=pair[0].class_names,
            kind="image",
            source=np.repeat(SOURCES, 500),
            name="MNIST + USPS",
        )
        for pair in zip(*parts, strict=True)
    )


def ratio_interval(left: np.ndarray, right: np.ndarray, seed: int) -> list[float]:
    """95 % bootstrap interval of mean(left) / mean(right)."""
    rng = np.random.default_rng(seed)
    drawn = [
        rng.choice(left, len(left)).mean() / rng.choice(right, len(right)).mean()
        for _ in range(2000)
    ]
    return np.quantile(drawn, [0.025, 0.975]).tolist()


def main() -> None:
    for network in ("mlp:width=1024", "cnn"):
        rows, start = [], time.perf_counter()
        for seed in range(SEEDS):
            train, val = mix(seed)
            lin = da.collect(da.build_model(network, train, seed=seed), train, val)
            information = da.sample_information(lin).information
            mnist, usps = (information[train.source == name] for name in SOURCES)
            rows.append((mnist, usps, mannwhitneyu(usps, mnist)))
        mnist, usps, _ = rows[0]
        record(
            f"s1_sources/MNIST + USPS {network.partition(':')[0]}",
            n=1000,
            seeds=SEEDS,
            mean_information={
                name: float(np.mean([r[i].mean() for r in rows])) for i, name in enumerate(SOURCES)
            },
            median_information={
                name: float(np.mean([np.median(r[i]) for r in rows]))
                for i, name in enumerate(SOURCES)
            },
            ratio_usps_to_mnist=[float(r[1].mean() / r[0].mean()) for r in rows],
            ratio_interval_95=[ratio_interval(r[1], r[0], 0) for r in rows],
            chance_usps_informs_more=[float(r[2].statistic / 500**2) for r in rows],
            p_value=[float(r[2].pvalue) for r in rows],
            seconds=time.perf_counter() - start,
        )
        if network.startswith("mlp"):
            histogram(
                "s1_sources_2a",
                "S1 Fig. 2a: information by data source",
                {"MNIST": mnist, "USPS": usps},
                x_title="functional sample information, nats",
            )


if __name__ == "__main__":
    main()
