"""The convolutional networks that S3 compares polynomials with (§3.3.3), trained once and kept.

    DATASSAY_CACHE=folder python papers/s3_networks.py [name ...]     names: those of NETWORKS

An interrupted training goes on after its last whole epoch.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch
from record import record
from tasks import idx_images
from torch import nn
from torch.nn.functional import cross_entropy

BATCH, LR, MOMENTUM = 100, 0.02, 0.9
DATA = ("mnist", "fashion_mnist")
# name → channels of the two convolutions, units of the hidden layer, batch normalisation, epochs.
# The first is the itemised list of §3.3.3; "batch norm" adds what its opening sentence mentions;
# the small ones have about as many weights as the polynomial (10 155 features for 10 classes).
NETWORKS = {
    "cnn": ((32, 64), 1000, False, 3),
    "small cnn": ((16, 32), 60, False, 3),
    "small cnn, batch norm": ((16, 32), 60, True, 3),
}


def network(name: str, seed: int = 0) -> nn.Sequential:
    """Two 5 x 5 convolutions with ReLU and pooling, dropout, two dense layers with nothing between.

    Takes [n, 1, 28, 28] in [0, 1].
    """
    channels, units, norm, _ = NETWORKS[name]
    torch.manual_seed(seed)
    layers, before = [], 1
    for c in channels:
        layers += [nn.Conv2d(before, c, 5, padding=2)]
        # ReLU and pooling commute; after pooling it has a quarter of the work.
        middle = [nn.ReLU(), nn.BatchNorm2d(c), nn.MaxPool2d(2)]
        layers += middle if norm else [nn.MaxPool2d(2), nn.ReLU()]
        before = c
    head = [nn.Flatten(), nn.Dropout(), nn.Linear(49 * before, units), nn.Linear(units, 10)]
    return nn.Sequential(*layers, *head).to(memory_format=torch.channels_last)


def trained(name: str, data: str, seed: int = 0) -> nn.Sequential:
    """The network after its epochs on all 60 000 images, from the cache where it is there."""
    model, epochs = network(name, seed), NETWORKS[name][3]
    optimizer = torch.optim.SGD(model.parameters(), LR, momentum=MOMENTUM, fused=True)
    kept = _kept(name, data, seed)
    kept.parent.mkdir(parents=True, exist_ok=True)
    done = 0
    if kept.exists():
        found = torch.load(kept, weights_only=True)
        model.load_state_dict(found["model"])
        optimizer.load_state_dict(found["optimizer"])
        done = found["epochs"]
    for epoch in range(done, epochs):
        start = time.perf_counter()
        _epoch(model, optimizer, data, epoch, epochs, seed)
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        partial = kept.with_suffix(".part")
        torch.save({**state, "epochs": epoch + 1}, partial)
        partial.replace(kept)
        seconds = time.perf_counter() - start
        print(name, data, f"epoch {epoch + 1}: {accuracy(model, data):.4f}, {seconds:.0f} s")
        sys.stdout.flush()
    return model.eval()


def is_trained(name: str, data: str, seed: int = 0) -> bool:
    """Whether the cache holds the network after all its epochs."""
    kept = _kept(name, data, seed)
    return kept.exists() and torch.load(kept, weights_only=True)["epochs"] == NETWORKS[name][3]


def _kept(name: str, data: str, seed: int) -> Path:
    folder = Path(os.environ["DATASSAY_CACHE"])
    return folder / f"s3 {name} {data} {seed} {NETWORKS[name][3]}.pt"


def _epoch(
    model: nn.Module, optimizer: torch.optim.SGD, data: str, epoch: int, epochs: int, seed: int
) -> None:
    """One pass in batches of 100; the rate falls in a line from LR to 0 over all epochs."""
    x, y = map(torch.as_tensor, idx_images(data))
    draw = torch.Generator().manual_seed(1000 * seed + epoch)
    torch.manual_seed(1000 * seed + epoch)  # dropout, the same after an interruption
    batches = torch.randperm(len(x), generator=draw).split(BATCH)
    model.train()
    for step, rows in enumerate(batches):
        rate = LR * (1 - (epoch + step / len(batches)) / epochs)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()


def labels(model: nn.Module, x: np.ndarray, batch: int = 500) -> np.ndarray:
    """Predicted classes of images [n, 28, 28] or [n, 1, 28, 28]."""
    images = torch.as_tensor(x).float().reshape(len(x), 1, 28, 28)
    model.eval()
    with torch.no_grad():
        return torch.cat([model(part).argmax(1) for part in images.split(batch)]).numpy()


def accuracy(model: nn.Module, data: str) -> float:
    """On the 10 000 test images."""
    x, y = idx_images(data, "test")
    return float((labels(model, x) == y).mean())


def main() -> None:
    for name in sys.argv[1:] or NETWORKS:
        for data in DATA:
            model = trained(name, data)
            record(
                f"papers/s3_networks/{name}, {data}",
                epochs=NETWORKS[name][3],
                parameters=sum(p.numel() for p in model.parameters()),
                accuracy=accuracy(model, data),
            )


if __name__ == "__main__":
    main()
