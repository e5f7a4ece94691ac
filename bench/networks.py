"""Networks that several tasks train, and the ResNet-20 trained on CIFAR-10."""

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import torch
from torch import nn

from bench.data import folder
from datassay.data import SampleSet
from datassay.train import Recipe, TrainedNetworks, train_networks

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def taken(networks: TrainedNetworks, like: nn.Module, index: int = 0) -> nn.Module:
    """One of the trained networks, as a copy of `like` in evaluation mode."""
    model = deepcopy(like)
    model.load_state_dict({name: w[index] for name, w in networks.state.items()})
    return model.eval()


def trained(
    model: nn.Module,
    train: SampleSet,
    recipe: Recipe,
    seed: int = 0,
    rows: np.ndarray | None = None,
) -> nn.Module:
    """A copy of the network, trained on all samples or on some."""
    return taken(trained_on_all([model], train, recipe, seed, rows), model)


def trained_on_all(
    models: Sequence[nn.Module],
    train: SampleSet,
    recipe: Recipe,
    seed: int = 0,
    rows: np.ndarray | None = None,
    **observed,
) -> TrainedNetworks:
    """The networks, each trained on all samples, or on the same rows."""
    rows = np.arange(len(train)) if rows is None else rows
    everyone = torch.as_tensor(rows).expand(len(models), -1)
    return train_networks(models, train, everyone, recipe, seed=seed, **observed)


class Block(nn.Module):
    """Two convolutions beside a shortcut without parameters."""

    def __init__(self, inside: int, outside: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.stride, self.pad = stride, (outside - inside) // 2

    def forward(self, x):
        """[n, c, h, w] → [n, c', h', w']."""
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        skip = x[:, :, :: self.stride, :: self.stride]
        return (y + nn.functional.pad(skip, (0, 0, 0, 0, self.pad, self.pad))).relu()


class ResNet20(nn.Module):
    """He et al. (2016) with parameter-free shortcuts; gives the 64 features before the head."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        for i, (a, b, s) in enumerate(((16, 16, 1), (16, 32, 2), (32, 64, 2)), start=1):
            blocks = [Block(a, b, s), Block(b, b, 1), Block(b, b, 1)]
            self.add_module(f"layer{i}", nn.Sequential(*blocks))

    def forward(self, x):
        """[n, 3, 32, 32] in [0, 1] → [n, 64]."""
        mean, deviation = (torch.tensor(v)[:, None, None] for v in (MEAN, DEVIATION))
        x = self.bn1(self.conv1((x - mean) / deviation)).relu()
        for i in (1, 2, 3):
            x = self.get_submodule(f"layer{i}")(x)
        return x.mean((2, 3))


def resnet20() -> nn.Module:
    """The ResNet-20 trained on CIFAR-10: its features and its last layer."""
    weights = np.load(folder("cifar10_weights", "resnet20.npz"))
    known = {k: torch.as_tensor(weights[k]) for k in weights.files}
    last = {k.removeprefix("linear."): known.pop(k) for k in list(known) if k.startswith("linear")}
    network, layer = ResNet20(), nn.Linear(64, 10)
    network.load_state_dict(known)
    layer.load_state_dict(last)
    return nn.Sequential(network, layer).eval()
