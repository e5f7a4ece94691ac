"""What Tables 6 and 7 of S0 share: Keras-like networks, intervals beside the paper's."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from datassay.act import SamplingComparison, mean_interval


def keras_networks(n_inputs: int, widths: tuple[int, ...], n_outputs: int, repeats: int):
    """ReLU networks as Keras starts them: Glorot's uniform weights, biases 0; one a seed."""
    networks = []
    for seed in range(repeats):
        torch.manual_seed(seed)
        layers: list[nn.Module] = []
        for size, width in zip((n_inputs, *widths[:-1]), widths, strict=True):
            layers += [nn.Linear(size, width), nn.ReLU()]
        network = nn.Sequential(*layers, nn.Linear(widths[-1], n_outputs))
        for layer in network:
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)
        networks.append(network)
    return networks


def summary(found: SamplingComparison, squared: bool = False) -> dict[str, list[float]]:
    """Mean, half the 95 % interval and median of both errors, by design."""
    rows = {}
    for name, l2, largest in zip(found.names, found.root_mean_square, found.largest, strict=True):
        for label, values in (("L2", l2**2 if squared else l2), ("Linf", largest)):
            rows[f"{name} {label}"] = rounded([*mean_interval(values), np.median(values)])
    return rows


def rounded(values) -> list[float]:
    return [float(f"{v:.4g}") for v in values]
