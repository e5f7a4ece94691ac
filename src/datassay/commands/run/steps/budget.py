"""What retraining costs, and how many networks a point a budget of seconds pays for."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from datassay.act.remove.held_out import judging
from datassay.act.remove.removal_curve import task_recipe, usable_fractions
from datassay.collect.jacobian.inputs import network_inputs
from datassay.collect.jacobian.per_sample import frozen_copy, inspect_layers
from datassay.collect.predicted import NOMINAL_RATE
from datassay.commands.run.settings import RunSettings
from datassay.data.samples import SampleSet

# Share of the matrix-product rate that training reached on two cores. Every network of a batch has
# convolution kernels of its own: many small convolutions instead of one.
TRAINING_SHARE, TRAINING_CONVOLUTION_SHARE = 0.3, 0.09
# What an update costs however small the networks.
UPDATE_SECONDS = 1.1e-3
RANKINGS = 6
BUDGET = "Retraining budget"


@dataclass(frozen=True, slots=True)
class ForwardWork:
    """Additions and multiplications of one sample's way through the network.

    Attributes:
        convolutions: in convolutions.
        products: in everything else that torch counts, matrix products mostly.
        last: of these in a dense layer that gives the outputs, whose derivative is its weight.
    """

    convolutions: int
    products: int
    last: int = 0

    def seconds(self, products_rate: float, convolutions_rate: float) -> float:
        """Of one way through, at the rates that the two kinds reach."""
        return self.products / products_rate + self.convolutions / convolutions_rate


def forward_work(model: nn.Module, samples: SampleSet) -> ForwardWork:
    """Count the first sample's way through the network, which is left untouched."""
    frozen = frozen_copy(model, torch.float32)
    x = network_inputs(samples.x[:1], frozen, torch.float32)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        frozen(x.clone())
    counts = counter.get_flop_counts().get("Global", {})
    convolutions = sum(int(n) for op, n in counts.items() if "convolution" in str(op))
    layers = inspect_layers(frozen, x)
    n_in, n_out, _ = layers.dense.get(layers.last, (0, 0, False))
    products = int(counter.get_total_flops()) - convolutions
    return ForwardWork(convolutions, products, 2 * n_in * n_out)


@dataclass(frozen=True, slots=True)
class Retraining:
    """What the removal curve and the contests take.

    Attributes:
        networks: trained in all.
        flops: additions and multiplications.
        seconds: at a rate.
    """

    networks: int
    flops: float
    seconds: float


def retraining(
    work: ForwardWork, train: SampleSet, val: SampleSet | None, seeds: int, rate: float
) -> Retraining:
    """The cost of `seeds` networks a point, at `rate` float32 operations a second."""
    recipe, n_rest = task_recipe(train), judging(train, val, 1).rest.shape[1]
    batch = min(recipe.batch_size or len(train), len(train))
    # Every fraction; without known truth one more round judges the suspects.
    points = len(usable_fractions(n_rest)) - 1 + (train.true_y is None)
    # On all samples; without a validation part also on all but the fifth that each is judged on.
    whole = 1 + (val is None)
    networks = seeds * (whole + RANKINGS * points)
    passes = 3.0 * batch * recipe.steps * networks  # forward, and backward twice that
    one = work.seconds(TRAINING_SHARE * rate, TRAINING_CONVOLUTION_SHARE * rate)
    seconds = passes * one + (whole + points) * recipe.steps * UPDATE_SECONDS
    return Retraining(networks, passes * (work.products + work.convolutions), seconds)


def affordable_networks(
    work: ForwardWork, train: SampleSet, val: SampleSet | None, settings: RunSettings
) -> int:
    """Networks a point that the budget pays for, at a fixed rate: the same on every machine.

    Returns:
        At most `curve_seeds`. Effects at trained networks need one, whatever it takes; an own
        model's fits are not predicted, and all are made.
    """
    if settings.own is not None:
        return settings.curve_seeds
    seeds, least = settings.curve_seeds, int(settings.attribution_at == "trained")
    rate = 2 * NOMINAL_RATE
    while seeds > least and retraining(work, train, val, seeds, rate).seconds > settings.budget:
        seeds -= 1
    return seeds


def budget_fact(
    work: ForwardWork,
    train: SampleSet,
    val: SampleSet | None,
    settings: RunSettings,
    seeds: int,
) -> dict[str, str]:
    """What the budget left out and how to get it; empty where it left out nothing."""
    if seeds == settings.curve_seeds:
        return {}
    seconds = retraining(work, train, val, settings.curve_seeds, 2 * NOMINAL_RATE).seconds
    made = f"{seeds} of {settings.curve_seeds} networks a point" if seeds else "left out"
    return {
        BUDGET: f"{made}: all would take about {seconds:,.0f} s on two cores, more "
        f"than {settings.budget:g} s; --budget {1.01 * seconds:.0f} trains them"
    }
