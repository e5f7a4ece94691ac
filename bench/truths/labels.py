"""Wrong labels: who finds them. AUROC of a score against the labels that are really wrong."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import noise_cases
import noise_contenders as asked
import numpy as np
import plain
from cells import Case, Contender, Truth

import datassay as da
from datassay.act import auroc
from datassay.data import SampleSet


@dataclass(frozen=True)
class Labelled:
    """Samples as a contender sees them, and which labels are wrong."""

    given: SampleSet
    wrong: np.ndarray


def hidden(noisy: SampleSet) -> Labelled:
    """Without the truth."""
    return Labelled(replace(noisy, true_y=None), noisy.y != noisy.true_y)


def small(name: str, n: int, noise, seed: int) -> Labelled:
    return hidden(noise(plain.drawn(name, n, seed)[0], seed))


def large(case: noise_cases.Case, seed: int) -> Labelled:
    work = Path(os.environ.get("BENCH_WORK", "bench-work"))
    work.mkdir(parents=True, exist_ok=True)
    return hidden(case.draw(work, seed))


def noise(fraction: float, kind: str):
    return lambda samples, seed: da.add_label_noise(samples, fraction, kind=kind, seed=seed)


QUICK = {
    "digits, uniform 10 %": ("digits", 700, noise(0.1, "uniform")),
    "digits, pair 30 %": ("digits", 700, noise(0.3, "pair")),
    "wine, uniform 20 %": ("wine", 150, noise(0.2, "uniform")),
    "breast_cancer, one-way 30 %": ("breast_cancer", 450, noise_cases.one_way(0.3)),
    "synthetic, uniform 20 %": ("synthetic", 600, noise(0.2, "uniform")),
}


def ours(task: Labelled, seed: int) -> np.ndarray:
    return asked.ours(task.given, seed).score


def confident(model: str, name: str, task: Labelled, seed: int) -> np.ndarray:
    """Cleanlab's score of a model's five-fold probabilities."""
    x = task.given.x.reshape(len(task.given), -1).astype(np.float32)
    found = getattr(asked, model)(task.given, x, seed)
    return asked.confident_learning(task.given.y, found)[name].score


def shapley(task: Labelled, seed: int) -> np.ndarray:
    """Minus the values of pyDVL's nearest-neighbour Shapley, five neighbours, of the set itself."""
    return -plain.neighbour_shapley(task.given, task.given)


def judge(task: Labelled, answer: np.ndarray, seed: int) -> dict[str, float]:
    return {"AUROC": auroc(task.wrong, answer)}


TRUTH = Truth(
    measure="wrong labels found: AUROC",
    cases={
        **{name: Case(partial(small, *how), quick=True) for name, how in QUICK.items()},
        **{
            name: Case(partial(large, case))
            for name, case in noise_cases.CASES.items()
            if "clean" not in name and "as shipped" not in name
        },
    },
    contenders={
        "label issues": Contender(ours, "ours"),
        "information": Contender(partial(plain.score, plain.information_score), "ours"),
        **{
            name: Contender(partial(plain.score, of), "trivial")
            for name, of in plain.TRIVIAL.items()
        },
        "area under the margin": Contender(partial(plain.score, plain.area_score)),
        **{
            f"cleanlab, {model}, {name}": Contender(
                partial(confident, model, name), needs="cleanlab"
            )
            for model in ("logistic", "trees")
            for name in ("self-confidence", "adjusted margin")
        },
        "pyDVL, neighbour Shapley": Contender(shapley, needs="pydvl"),
    },
    judge=judge,
    # Settings of ours: digits and 2000 samples of both MNISTs; of the rivals: four cells.
    chosen_on={
        "digits": (200, 201), "mnist": (200, 201), "fashion": (200, 201),
        "wine": (7,), "census": (7,), "breast_cancer": (7,),
    },
)  # fmt: skip
