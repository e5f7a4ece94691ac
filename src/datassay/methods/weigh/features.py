"""Features for the neighbour search: standardised inputs, or a trained network's last features.

S0 §4.3: distances mean little among many columns or pixels; there neighbours are taken in the space
of the last hidden layer.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.progress import Progress, silent
from datassay.train.fitter import taken_network
from datassay.train.recipe import network_recipe
from datassay.train.training import train_networks

# Rows of at most so many columns are compared as they are.
FEW_COLUMNS = 50


def suits_inputs(train: SampleSet) -> bool:
    """Return whether to search neighbours among inputs instead of a network's features."""
    if train.encoding is not None and train.encoding.name:
        return True
    return train.kind == "row" and int(np.prod(train.input_shape)) <= FEW_COLUMNS


@checks_arguments
def trained_network(
    model: nn.Module,
    train: SampleSet,
    *,
    seed: int = 0,
    observe: Callable[[Tensor, Tensor], None] | None = None,
    progress: Progress = silent,
) -> nn.Module:
    """Train the network on the samples without weights (S0 Algorithm 1, line 2).

    Args:
        model: at its initial weights; left untouched.
        train: n training samples.
        seed: of the batches.
        observe: as for `train_networks`.
        progress: called with (step, updates done, updates in all).

    Returns:
        A trained copy.
    """
    networks = train_networks(
        [model], train, torch.arange(len(train))[None], network_recipe(len(train)), seed=seed,
        observe=observe, progress=lambda _, done, total: progress("train the network", done, total),
    )  # fmt: skip
    return taken_network(model, networks)
