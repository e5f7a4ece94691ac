"""What the truths share: samples that come with scikit-learn, and the trivial scores."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from cells import Contender
from noise_cases import images, sample_set
from noise_contenders import area_under_margin, final_loss, neighbours, trained_outputs
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor

import datassay as da
from datassay.data import SampleSet
from datassay.models import build_model

TEST = 600
LOADERS = {"digits": load_digits, "wine": load_wine, "breast_cancer": load_breast_cancer}


def drawn(
    name: str, n: int, seed: int, classes: tuple[int, ...] = ()
) -> tuple[SampleSet, SampleSet]:
    """N training rows of a set, drawn by the seed, and up to TEST others.

    Args:
        name: "digits", "wine", "breast_cancer", "synthetic" (12 columns, 3 classes of 2 clusters),
            "mnist" and "fashion_mnist" (14 x 14 means, of DATASSAY_DATA).
        n: training samples.
        seed: of the draw; of "synthetic" of the samples too.
        classes: only these.
    """
    if name == "synthetic":
        x, y = make_classification(
            n + TEST, 12, n_informative=6, n_classes=3, n_clusters_per_class=2, random_state=seed
        )
    elif name in LOADERS:
        x, y = LOADERS[name](return_X_y=True)
    else:
        found = images(name, (n + TEST) * (5 if classes else 1), Path(), seed)
        x = found.x.reshape(-1, 14, 2, 14, 2).mean((2, 4)).reshape(len(found), -1)
        y = found.y
    if classes:
        kept = np.isin(y, classes)
        x, y = x[kept], np.searchsorted(classes, y[kept])
    order = np.random.default_rng((seed, 11)).permutation(len(x))
    train, test = order[:n], order[n : n + TEST]
    scale = x[train].std(0)
    x = (x - x[train].mean(0)) / np.where(scale > 0, scale, 1)
    return sample_set(x[train], y[train], name), sample_set(x[test], y[test], name)


# Scores of a sample: [n], higher: more likely wrong, rare or hard. -----------------------------


def _rows(samples: SampleSet) -> np.ndarray:
    return samples.x.reshape(len(samples), -1).astype(np.float32)


def random_score(samples: SampleSet, seed: int) -> np.ndarray:
    """A random order."""
    return np.random.default_rng((seed, 12)).random(len(samples))


def loss_score(samples: SampleSet, seed: int) -> np.ndarray:
    """The loss of a small network that has learnt all samples."""
    return final_loss(samples, _rows(samples), seed).score


def margin_score(samples: SampleSet, seed: int) -> np.ndarray:
    """Minus its lead of the given label over the best other."""
    outputs = trained_outputs(samples, _rows(samples), seed)
    own = outputs[np.arange(len(samples)), samples.y]
    outputs[np.arange(len(samples)), samples.y] = -np.inf
    return outputs.max(1) - own


def class_mean_score(samples: SampleSet, seed: int) -> np.ndarray:
    """The distance from the mean of its class."""
    x = _rows(samples)
    means = np.stack([
        x[samples.y == c].mean(0) if (samples.y == c).any() else x.mean(0)
        for c in range(samples.n_classes or 1)
    ])  # fmt: skip
    return np.linalg.norm(x - means[samples.y], axis=1)


def neighbour_score(samples: SampleSet, seed: int) -> np.ndarray:
    """The share of the nearest samples with another label."""
    return neighbours(samples, _rows(samples)).score


def forest_score(samples: SampleSet, seed: int) -> np.ndarray:
    """Isolation forest, scikit-learn's defaults; it sees no label."""
    rows = _rows(samples)
    return -IsolationForest(random_state=seed).fit(rows).score_samples(rows)


def outlier_score(samples: SampleSet, seed: int) -> np.ndarray:
    """Local outlier factor, scikit-learn's defaults, within each class."""
    rows, found = _rows(samples), np.zeros(len(samples))
    for c in np.unique(samples.y):
        own = samples.y == c
        if own.sum() > 2:
            factor = LocalOutlierFactor(min(20, int(own.sum()) - 1)).fit(rows[own])
            found[own] = -factor.negative_outlier_factor_
    return found


def area_score(samples: SampleSet, seed: int) -> np.ndarray:
    """Minus the area under the margin."""
    return area_under_margin(samples, _rows(samples), seed).score


def linearised(samples: SampleSet, seed: int):
    """The linearisation that `datassay score` makes."""
    return da.collect(build_model("mlp:width=256", samples, seed=seed), samples, seed=seed)


def information_score(samples: SampleSet, seed: int) -> np.ndarray:
    """The library's information, nats."""
    return da.sample_information(linearised(samples, seed)).information


def issue_score(samples: SampleSet, seed: int) -> np.ndarray:
    """The library's label score."""
    return da.label_issues(linearised(samples, seed)).score


TRIVIAL = {
    "random": random_score,
    "final loss": loss_score,
    "margin": margin_score,
    "class-mean distance": class_mean_score,
    "neighbours": neighbour_score,
}


def score(of: Callable, task: Any, seed: int) -> np.ndarray:
    """A score of the samples that a contender is given."""
    return of(task.given, seed)


def finders() -> dict[str, Contender]:
    """Who ranks samples that nobody labelled as odd."""
    kinds = {
        "ours": {"information": information_score, "label issues": issue_score},
        "trivial": TRIVIAL,
        "rival": {
            "area under the margin": area_score,
            "isolation forest": forest_score,
            "local outlier factor": outlier_score,
        },
    }
    return {
        name: Contender(partial(score, of), kind)
        for kind, group in kinds.items()
        for name, of in group.items()
    }


def neighbour_shapley(train: SampleSet, test: SampleSet, count: int = 5) -> np.ndarray:
    """PyDVL's exact Shapley values of a nearest-neighbour classifier on the test samples: [n]."""
    from pydvl.valuation import Dataset, KNNShapleyValuation
    from sklearn.neighbors import KNeighborsClassifier

    parts = [Dataset(_rows(part), part.y) for part in (train, test)]
    model = KNeighborsClassifier(n_neighbors=count)
    return np.asarray(
        KNNShapleyValuation(model, parts[1], progress=False).fit(parts[0]).result.values
    )
