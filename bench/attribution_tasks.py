"""Data and networks of the attribution suite. A task takes a folder where it may keep things."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from datassay.data import SampleSet, load
from datassay.models import build_model

Batch = dict[str, Tensor]


def by_position(model: nn.Module, batch: Batch) -> Tensor:
    """Logits of a network of arrays."""
    return model(batch["x"])


def as_it_is(batch: Batch, generator: torch.Generator) -> Batch:
    """No augmentation."""
    return batch


@dataclass(frozen=True)
class Task:
    """Samples, queries and the networks that they train. Here of classes: the outcome is a margin.

    Attributes:
        measure: what `da.influence` calls the outcome.
        train: tensors by name, n rows each, "labels" among them.
        queries: likewise, m rows.
        positions: [n], of the samples in their source.
        build: seed → an untrained network.
        logits: (network, batch) → [b, k].
        augment: (batch, generator) → batch, while training.
        texts: of the samples and of the queries, where they are texts.
        tracked: the layers that train, by name; None: all.
        sets: samples and queries of arrays.
    """

    train: Batch
    queries: Batch
    positions: np.ndarray
    build: Callable[[int], nn.Module]
    logits: Callable[[nn.Module, Batch], Tensor] = by_position
    augment: Callable[[Batch, torch.Generator], Batch] = as_it_is
    texts: tuple[list[str], list[str]] | None = None
    tracked: list[str] | None = None
    sets: tuple[SampleSet, SampleSet] | None = None
    measure: ClassVar[str] = "margin"

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """What an update lowers, a mean over the batch: []."""
        return nn.functional.cross_entropy(self.logits(model, batch), batch["labels"])

    def outcome(self, model: nn.Module, batch: Batch) -> Tensor:
        """What is asked of each query, [b]: the log odds of its label."""
        return log_odds(self.logits(model, batch), batch["labels"])

    def given(self, which: str) -> SampleSet | list[Batch]:
        """The "train" or "queries" of a user: a SampleSet, else a dictionary a sample."""
        if self.sets is not None:
            return self.sets[which == "queries"]
        batch = getattr(self, which)
        return [{name: t[row] for name, t in batch.items()} for row in range(len(batch["labels"]))]


def log_odds(logits: Tensor, labels: Tensor) -> Tensor:
    """f_y less logsumexp of the others: [m, k], [m] → [m]."""
    own = torch.nn.functional.one_hot(labels, logits.shape[-1]).bool()
    others = logits.masked_fill(own, -torch.inf)
    return logits[own] - others.logsumexp(-1)


def data_folder() -> Path:
    """DATASSAY_DATA."""
    return Path(os.environ["DATASSAY_DATA"])


def batch_of(samples: SampleSet) -> Batch:
    """X and labels."""
    return {"x": torch.as_tensor(samples.x).float(), "labels": torch.as_tensor(samples.y).long()}


@cache
def digits(work: Path) -> Task:
    """MLP 64-32-32-10 on 1000 digits, 300 queries."""
    train, queries = load("digits", val_fraction=0.4)
    rng = np.random.default_rng(0)
    kept = np.sort(rng.permutation(len(train))[:1000])
    train = train.subset(kept)
    queries = queries.subset(np.sort(rng.permutation(len(queries))[:300]))

    def build(seed: int) -> nn.Module:
        return build_model("mlp:width=32,depth=2", train, seed=seed).requires_grad_(True)

    return Task(batch_of(train), batch_of(queries), kept, build, sets=(train, queries))


@cache
def fashion(work: Path) -> Task:
    """A CNN with batch norm on 1000 Fashion-MNIST images, 300 queries; shifted and mirrored."""
    train, test = load(data_folder() / "fashion_mnist")
    rng = np.random.default_rng(0)
    kept = np.sort(rng.permutation(len(train))[:1000])
    asked = np.sort(rng.permutation(len(test))[:300])
    train, queries = (
        replace(part, x=((part.x.reshape(-1, 1, 28, 28) - 0.286) / 0.353).astype(np.float32))
        for part in (train.subset(kept), test.subset(asked))
    )
    batches = (batch_of(train), batch_of(queries))
    augment = shifted_and_mirrored
    return Task(*batches, kept, small_cnn, augment=augment, sets=(train, queries))


def small_cnn(seed: int) -> nn.Module:
    """Three convolutions with batch norm, 6046 weights: [n, 1, 28, 28] → [n, 10]."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for inside, outside in ((1, 8), (8, 16), (16, 20)):
        layers += [nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside)]
        layers += [nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(180, 10))


def shifted_and_mirrored(batch: Batch, generator: torch.Generator, by: int = 1) -> Batch:
    """Images moved by up to `by` pixels each way, every second one mirrored."""
    x = batch["x"]
    n, _, height, width = x.shape
    edge = float(x.min())
    padded = nn.functional.pad(x, (by,) * 4, value=edge)
    down, right = torch.randint(0, 2 * by + 1, (2, n, 1), generator=generator)
    mirrored = torch.rand(n, 1, generator=generator) < 0.5
    rows, columns = down + torch.arange(height), right + torch.arange(width)
    columns = torch.where(mirrored, columns.flip(1), columns)
    each = torch.arange(n)[:, None, None]
    moved = padded[each, :, rows[:, :, None], columns[:, None, :]]  # [n, h, w, c]
    return {**batch, "x": moved.permute(0, 3, 1, 2).contiguous()}
