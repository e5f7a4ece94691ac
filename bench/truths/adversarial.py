"""Adversarial samples: a tenth of the inputs moved so that a trained network errs; who finds them.

The step is the fast gradient sign method's against another network than any contender has. AUROC of
a score against which inputs were moved.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import plain
import torch
from cells import Case, Truth
from noise_cases import images, sample_set

from datassay.act import auroc
from datassay.data import SampleSet, add_adversarial
from datassay.models import build_model
from datassay.train import Recipe, train_networks

SHARE = 0.1
# name → columns' largest change, in their standard deviations
STEPS = {"digits": 0.5, "synthetic": 0.7, "breast_cancer": 0.7}


@dataclass(frozen=True)
class Attacked:
    """Samples, and which inputs were moved."""

    given: SampleSet
    moved: np.ndarray


def attacked(samples: SampleSet, epsilon: float, seed: int) -> Attacked:
    """By a network of its own."""
    start = build_model("mlp:width=64", samples, seed=5000 + seed)
    everything = torch.arange(len(samples))[None]
    networks = train_networks([start], samples, everything, Recipe(steps=400), seed=seed)
    start.load_state_dict({name: w[0] for name, w in networks.state.items()})
    found = add_adversarial(samples, start, SHARE, epsilon=epsilon, seed=seed)
    return Attacked(found.samples, found.replaced)


def small(name: str, n: int, seed: int) -> Attacked:
    return attacked(plain.drawn(name, n, seed)[0], STEPS[name], seed)


def pictures(name: str, seed: int) -> Attacked:
    from pathlib import Path

    drawn = images(name, 3000, Path(), seed)
    x = drawn.x.reshape(-1, 14, 2, 14, 2).mean((2, 4)).reshape(len(drawn), -1)
    return attacked(sample_set(x, drawn.y, name), 0.1 * float(x.max()), seed)


def judge(task: Attacked, answer: np.ndarray, seed: int) -> dict[str, float]:
    return {"AUROC": auroc(task.moved, answer)}


TRUTH = Truth(
    measure="adversarial inputs found: AUROC",
    cases={
        "digits": Case(partial(small, "digits", 800), quick=True),
        "synthetic": Case(partial(small, "synthetic", 800), quick=True),
        "breast_cancer": Case(partial(small, "breast_cancer", 450), quick=True),
        "MNIST": Case(partial(pictures, "mnist")),
        "Fashion-MNIST": Case(partial(pictures, "fashion_mnist")),
    },
    contenders=plain.finders(),
    judge=judge,
)
