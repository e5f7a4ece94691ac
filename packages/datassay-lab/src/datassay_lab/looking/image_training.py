"""Train one network on images given as arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import nn

from datassay.data import SampleSet
from datassay.models import seeded
from datassay.progress import Progress, silent
from datassay.train import Recipe, taken_network, train_networks


def trained(
    build: Callable[[], nn.Module],
    images: Float[np.ndarray, "n H W"],
    labels: Int[np.ndarray, " n"],
    recipe: Recipe,
    *,
    seed: int,
    progress: Progress = silent,
) -> nn.Module:
    """Train a network from random initial weights."""
    # build: makes the network, [n, 1, H, W] → [n, classes]. labels: 0 to classes − 1, each
    # present. recipe: optimiser, steps, batch size and loss. seed: of the initial weights and the
    # order of batches. progress: called with the updates done.
    names = tuple(str(c) for c in range(int(labels.max()) + 1))
    n = len(labels)
    samples = SampleSet(images[:, None].astype(np.float32), labels, np.arange(n), names, "image")
    with seeded(seed):
        model = build()
    everything = torch.arange(n)[None]
    networks = train_networks([model], samples, everything, recipe, seed=seed, progress=progress)
    return taken_network(model, networks).eval().requires_grad_(False)


def outputs(model: nn.Module, images: Float[np.ndarray, "n H W"]) -> Float[np.ndarray, "n k"]:
    """Logits of a network."""
    with torch.no_grad():
        return model(torch.tensor(images[:, None], dtype=torch.float32)).numpy()


def accuracy(
    model: nn.Module, images: Float[np.ndarray, "n H W"], labels: Int[np.ndarray, " n"]
) -> float:
    """Share of images whose largest logit is their label's."""
    return float((outputs(model, images).argmax(axis=1) == labels).mean())
