"""Weightings by name, each computed from one training run."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from datassay.data.samples import SampleSet
from datassay.methods.weigh.baseline_weights import (
    active_bias_weights,
    balanced_variance_weights,
    class_balanced_weights,
    self_paced_weights,
)
from datassay.methods.weigh.weights import SampleWeights, scaled_variance, weights_of_variance
from datassay.results import result
from datassay.score.neighbors.local_variance import LocalVariance
from datassay.train.history import PredictionHistory
from datassay.train.recipe import Recipe
from datassay.train.training import TrainedNetworks, sample_losses

NEEDS_CLASSES = {"balanced_variance", "class_balanced", "active_bias"}
NEEDS_NETWORK = {"self_paced", "active_bias"}
DENSITY_CLIP = 10.0
BETA = 0.999
# Self-paced, in one step: weights fall linearly to 0 at the loss of this share of the samples.
EASY = 0.9
# Class-balanced weights less uneven than this are as good as none.
EVEN = 1.1


@result
class Watched:
    """A trained network, and the history of its predictions during training.

    Attributes:
        model: the network; None where no weighting and no features need one.
        history: of the probability of each sample's label; None unless it was recorded.
    """

    model: nn.Module | None = None
    history: PredictionHistory | None = None


def weigh(
    method: str,
    train: SampleSet,
    local: LocalVariance,
    watched: Watched,
    *,
    n_columns: int,
    max_ratio: float = 40,
    density: bool = False,
) -> SampleWeights:
    """Weigh samples by one of METHODS."""
    if method == "local_variance":
        clip = DENSITY_CLIP if density else None
        return weights_of_variance(local, train.ids, max_ratio, clip, n_columns)
    if method == "balanced_variance":
        weight = scaled_variance(local.variance, max_ratio)
        details = {"beta": BETA, "max_ratio": max_ratio}
        weight = balanced_variance_weights(train.y, weight, BETA)
        return SampleWeights(weight, train.ids, method, details)
    if method == "class_balanced":
        return SampleWeights(
            class_balanced_weights(train.y, BETA), train.ids, method, {"beta": BETA}
        )
    if method == "active_bias":
        assert watched.history is not None
        visits = int(watched.history.visits.min())
        weight = active_bias_weights(watched.history)
        return SampleWeights(weight, train.ids, method, {"fewest_visits": visits})
    assert watched.model is not None
    weight = self_paced_weights(_losses(watched.model, train), EASY, is_soft=True)
    return SampleWeights(weight, train.ids, method, {"fraction": EASY})


def baseline_of(method: str, train: SampleSet) -> str | None:
    """Return the weighting to compare a method with, or None.

    It is local variance; for local variance itself class-balanced weights, where they differ.
    """
    if method != "local_variance":
        return "local_variance"
    if not train.is_classification:
        return None
    weight = class_balanced_weights(train.y, BETA)
    if weight.max() > EVEN * weight.min():
        return "class_balanced"
    return None


def _losses(model: nn.Module, train: SampleSet) -> np.ndarray:
    """Return the network's loss of each sample, [n]."""
    network = TrainedNetworks(model, {n: p.detach()[None] for n, p in model.state_dict().items()})
    return sample_losses(network.outputs_in_parts(train.x), train, Recipe())[0].numpy()


def recorder(history: PredictionHistory, train: SampleSet):
    """Return an `observe` hook of `train_networks` that records predictions in a history."""
    y = torch.as_tensor(train.y)

    def observe(positions: Tensor, outputs: Tensor) -> None:
        history.record(positions, outputs, y)

    return observe
