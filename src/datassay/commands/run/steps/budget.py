"""What retraining costs, and how many networks a point a budget of seconds pays for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from datassay.act.choose.action import most_fits
from datassay.act.remove.removal_curve import task_recipe, usable_fractions
from datassay.collect.form import NOMINAL_RATE
from datassay.collect.jacobian.inputs import network_inputs
from datassay.collect.jacobian.per_sample import frozen_copy, inspect_layers
from datassay.commands.run.settings import RunSettings
from datassay.data.samples import SampleSet
from datassay.train.folds import judging
from datassay.train.recipe import BATCH, network_updates

# Share of the matrix-product rate that training reached on two cores. Every network of a batch has
# convolution kernels of its own: many small convolutions instead of one.
TRAINING_SHARE, TRAINING_CONVOLUTION_SHARE = 0.3, 0.09
# What an update costs however small the networks.
UPDATE_SECONDS = 1.1e-3
RANKINGS = 6
# Without a validation part of the user's own, acts are judged on so many held-out samples, in up to
# five fifths of the training samples. Of fewer than FEWEST samples intervals are ten points wide.
WANTED, FIFTHS, FEWEST = 1500, 5, 100
# As above, where a few networks train side by side for longer.
ACT_SHARE, ACT_UPDATE_SECONDS = 0.8, 3e-4
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


@dataclass(frozen=True, slots=True)
class ActPlan:
    """How the table of acts is measured within the budget.

    Attributes:
        parts: held-out parts: 1, or fifths of the training samples.
        seeds: models an act in the first part.
        further: models an act in each other part.
        per_fit: seconds that one model an act and seed takes over all parts, at the fixed rate;
            None of the user's own model, whose fits are not predicted.
    """

    parts: int
    seeds: int
    further: int
    per_fit: float | None

    @property
    def networks(self) -> int:
        """Of one act."""
        return self.seeds + (self.parts - 1) * self.further


def act_plan(
    work: ForwardWork,
    train: SampleSet,
    val: SampleSet | None,
    settings: RunSettings,
    rate: float,
    fewest: int = FEWEST,
) -> ActPlan | None:
    """How many parts and seeds the budget pays for; None where it pays for no comparison.

    Args:
        work: of one sample's way through the network.
        train: the training samples.
        val: the validation samples, or None.
        settings: of the run.
        rate: float32 operations a second.
        fewest: samples below which nothing is compared.

    Returns:
        The most parts and seeds with which all acts are likely to be retrained; else one part and
        two seeds, and acts are left out.
    """
    most = settings.curve_seeds
    if most < 2 or len(train) < fewest or not settings.budget > 0:
        return None
    own_part = val is not None and not val.split_off
    parts = 1 if own_part else min(FIFTHS, max(1, ceil(WANTED * FIFTHS / len(train))))
    learners = len(train) if own_part else len(train) * (FIFTHS - 1) // FIFTHS
    one = work.seconds(ACT_SHARE * rate, TRAINING_CONVOLUTION_SHARE * rate)
    each = network_updates(learners) * (
        3.0 * min(BATCH, learners) * one + ACT_UPDATE_SECONDS / most
    )
    fits = most_fits()
    for tried, seeds in ((parts, most), (parts, 2), (1, most), (1, 2)):
        plan = ActPlan(tried, seeds, min(2, seeds), None)
        plan = replace(plan, per_fit=each * plan.networks)
        if settings.own is not None:
            return replace(plan, per_fit=None)
        if fits * (plan.per_fit or 0.0) <= settings.budget:
            return plan
    return plan if 3 * (plan.per_fit or 0.0) <= settings.budget else None


def affordable_networks(
    work: ForwardWork, train: SampleSet, val: SampleSet | None, settings: RunSettings
) -> int:
    """Networks a point that the budget pays for, at a fixed rate: the same on every machine.

    Returns:
        At most `curve_seeds`. Effects at trained networks need one, whatever it takes; an own
        model's fits are not predicted, and all are made.
    """
    if settings.own is not None:
        return settings.curve_seeds if settings.budget > 0 else 0
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
    if settings.own is not None:
        return {BUDGET: "left out: your model is retrained where --budget is above 0"}
    seconds = retraining(work, train, val, settings.curve_seeds, 2 * NOMINAL_RATE).seconds
    made = f"{seeds} of {settings.curve_seeds} networks a point" if seeds else "left out"
    return {
        BUDGET: f"{made}: all would take about {seconds:,.0f} s on two cores, more "
        f"than {settings.budget:g} s; --budget {1.01 * seconds:.0f} trains them"
    }
