"""Wrong labels found by self-influence: a ResNet-20 fine-tuned on images of which a tenth is wrong.

Trained on CIFAR-10, then fine-tuned by AdamW on 600 of its test images, 60 with another label,
until it has learnt most of the wrong ones. A contender gives [n], higher: more likely wrong.
"""

from __future__ import annotations

import lzma
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from attribution_cases import Recipe, fitted
from attribution_contenders import Contender, kronfluence
from attribution_tasks import Task, batch_of, data_folder
from torch import nn
from torch.func import functional_call, grad, vmap

import datassay as da
from datassay.data import SampleSet

sys.path.append(str(Path(__file__).parent / "papers"))

RECIPE = Recipe("adamw", 3e-4, 32, epochs=8, weight_decay=0.01)
N, N_WRONG, SEEDS = 600, 60, 3


@dataclass(frozen=True)
class NoisyCell:
    """A network that was trained on wrong labels: task, network, and which were wrong, [n] bool."""

    task: Task
    model: nn.Module
    wrong: np.ndarray


@cache
def photographs():
    """CIFAR-10's test images [n, 3, 32, 32] in [0, 1] and labels."""
    folder = data_folder() / "cifar10"
    x = np.load(lzma.open(folder / "test_x.npy.xz"))
    return x.transpose(0, 3, 1, 2).astype(np.float32) / 255, np.load(folder / "test_meta.npz")["y"]


def noisy_cell(seed: int) -> NoisyCell:
    """Draw images and wrong labels, and fine-tune."""
    task, wrong = drawn(seed)
    return NoisyCell(task, fitted(task, RECIPE, np.arange(N), seed), wrong)


def drawn(seed: int) -> tuple[Task, np.ndarray]:
    """Images with some wrong labels, the network before fine-tuning, and which are wrong."""
    import resnet20

    x, y = photographs()
    rng = np.random.default_rng(seed)
    kept = rng.permutation(len(x))[:N]
    wrong = np.zeros(N, dtype=bool)
    wrong[rng.permutation(N)[:N_WRONG]] = True
    true = y[kept].astype(np.int64)
    given = np.where(wrong, (true + rng.integers(1, 10, N)) % 10, true)
    names = tuple(str(c) for c in range(10))
    train = SampleSet(x[kept], given, ids=np.arange(N), class_names=names, kind="image")
    few = train.subset(np.arange(10))

    def build(seed: int) -> nn.Module:
        return resnet20.trained().requires_grad_(True)

    return Task(batch_of(train), batch_of(few), kept, build, sets=(train, few)), wrong


def loss(task: Task, model: nn.Module) -> np.ndarray:
    """Cross-entropy of the given label."""
    with torch.no_grad():
        logits = task.logits(model, task.train)
        return nn.functional.cross_entropy(logits, task.train["labels"], reduction="none").numpy()


def tracin(task: Task, model: nn.Module) -> np.ndarray:
    """Squared length of the loss gradient, at the last checkpoint."""
    weights = {name: w.detach() for name, w in model.named_parameters() if w.requires_grad}

    def of_one(weights, x, label):
        logits = functional_call(model, weights, (x[None],))
        return nn.functional.cross_entropy(logits, label[None])

    each = vmap(grad(of_one), in_dims=(None, 0, 0), chunk_size=16)
    found = each(weights, task.train["x"], task.train["labels"])
    return sum(g.flatten(1).square().sum(1) for g in found.values()).numpy()


def ours(task: Task, model: nn.Module, **settings) -> np.ndarray:
    """The library as it comes: what each sample did to its own loss."""
    found = da.influence(
        model, task.given("train"), task.given("queries"), measure="loss", **settings
    )
    return np.asarray(found.self_influence)


NOISE_RIVALS: dict[str, Contender] = {
    "loss": loss,
    "TracIn": tracin,
    "kronfluence": lambda task, model: kronfluence(task, model, own=True),
    "kronfluence, its heuristic damping": lambda task, model: kronfluence(task, model, None, True),
}
