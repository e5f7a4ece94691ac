"""A trained network as commands get it: a name, files of weights, and the training loss."""

import copy
import time
from pathlib import Path

from torch import nn

from datassay.collect.curvature.output_loss import task_loss
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.models.build import build_model
from datassay.score.index.opened import Index

# In a plan that was counted without trained weights.
INITIAL = "Counted at the weights as initialised, since sizes do not depend on them{}."


def networks(model: str, weights: tuple[Path, ...], train: SampleSet, seed: int) -> list[nn.Module]:
    """Return the network with each file's weights; one as initialised if there is no file."""
    return [
        copy.deepcopy(build_model(model, train, weights=path, seed=seed)).eval()
        for path in weights or (None,)
    ]


def loss_of(loss: str, train: SampleSet) -> str:
    """Return the loss's name, chosen by the task if "auto"; raise if it does not suit y."""
    if loss == "auto" and train.has_several_labels:
        return "bce"
    if loss == "next_token" and train.y.ndim < 2:
        raise SettingError("loss next_token needs y [n, tokens], the ids of tokens; got [n].")
    if loss in {"bce", "next_token"}:
        return loss
    return task_loss(train, loss)


def start_seconds(train: SampleSet) -> float:
    """Return the seconds spent so far on loading, and those that encoding all samples takes."""
    seconds = time.process_time()
    if train.encoding is not None:
        seconds += train.encoding.seconds  # of all samples: a plan encodes a few
    return seconds


def correlation(index: Index) -> str:
    """Return the index's correlation with exact effects and its interval, as text."""
    interval = index.fidelity
    if interval is None:
        return "too few samples to tell"
    return f"{interval['mean']:.3f} ({interval['low']:.3f} to {interval['high']:.3f})"
