"""LeNet-5 networks to weight, trained once and kept, and what their retrained layers get right."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from datassay.data import SampleSet
from datassay.models import lenet5

BATCH, LR = 128, 2e-3


def lenet(samples: SampleSet, seed: int, epochs: int, tag: str) -> nn.Module:
    """LeNet-5 trained by Adam, its rate falling in a line from 0.002 to 0, in batches of 128.

    Kept under `tag` in the folder that DATASSAY_CACHE names, where it names one, and then read
    from there.
    """
    torch.manual_seed(seed)
    model = lenet5(samples.input_shape, samples.n_classes)
    folder = os.environ.get("DATASSAY_CACHE")
    kept = Path(folder) / f"{tag}_{seed}_{epochs}.npz" if folder else None
    if kept and kept.exists():
        found = np.load(kept)
        model.load_state_dict({name: torch.as_tensor(found[name]) for name in found.files})
        return model.eval()
    _train(model, samples, epochs)
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.savez(kept, **{name: t.numpy() for name, t in model.state_dict().items()})
    return model.eval()


def _train(model: nn.Module, samples: SampleSet, epochs: int) -> None:
    x, y = torch.as_tensor(samples.x), torch.as_tensor(samples.y)
    steps = epochs * -(-len(x) // BATCH)
    optimizer = torch.optim.Adam(model.parameters(), LR, fused=True)
    rate = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
            rate.step()
