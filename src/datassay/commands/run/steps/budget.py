"""How many networks per point, and which comparisons of actions, a budget of seconds pays for.

What is paid for is counted at one nominal rate, so that the same options train the same networks
on every machine, idle or busy; what `--plan` shows is measured here and decides nothing.
"""

from collections import Counter
from dataclasses import dataclass
from math import ceil

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from datassay.act.choose.kinds import most_fits
from datassay.act.remove.removal_curve import task_recipe, usable_fractions
from datassay.collect.form import NOMINAL_RATE
from datassay.collect.jacobian.inputs import network_inputs
from datassay.collect.jacobian.per_sample import frozen_copy
from datassay.commands.run.settings import RunSettings
from datassay.data.samples import SampleSet
from datassay.train.folds import make_splits
from datassay.train.recipe import BATCH, network_updates

RATE = 2 * NOMINAL_RATE  # float32 operations a nominal second
# Shares of that rate which are assumed: for the removal curve's networks, for those of the actions,
# which train longer and fewer side by side, and for convolutions of either.
CURVE_SHARE = 0.3
ACT_SHARE = 0.8
CONVOLUTION_SHARE = 0.09
CURVE_UPDATE, ACT_UPDATE = 1.1e-3, 3e-4  # nominal seconds of an update however small the networks
RANKINGS = 4
# Without a validation part of the user's own, actions are judged on WANTED held-out samples, in up
# to five fifths of the training samples. With fewer than FEWEST samples intervals are ten points
# wide.
WANTED = 1500
FIFTHS = 5
FEWEST = 100
# Models of an action, for each network of a point of the curve: they decide, the curve only shows.
MODELS = 5 / 3
BUDGET = "Retraining budget"
SECONDS = 60.0  # nominal, for curve and for actions, where no budget is given
# With more classes, MANY_SECONDS: each has few members, and networks are expensive.
MANY_CLASSES, MANY_SECONDS = 100, 10.0


def seconds_of(settings: RunSettings, train: SampleSet) -> float:
    """Return the budget in seconds: of the removal curve, and again of the actions."""
    if settings.budget is None:
        if train.n_classes > MANY_CLASSES:
            return MANY_SECONDS
        return SECONDS
    return settings.budget


# By torch's own rules; its `FlopCounterMode` imports a compiler.
class OperationCounter(TorchDispatchMode):
    """A mode that counts the floating-point operations of the code inside it, by operation."""

    def __init__(self):
        super().__init__()
        self.counts: Counter[str] = Counter()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # skipping it imports it, for a second

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        rule = flop_registry.get(func._overloadpacket)
        if rule is not None:
            self.counts[str(func)] += int(rule(*args, **(kwargs or {}), out_val=out))
        return out


@dataclass(frozen=True, slots=True)
class ForwardWork:
    """The additions and multiplications of one sample's forward pass."""

    convolutions: int  # in convolutions
    products: int  # in everything else that torch counts, matrix products mostly

    @property
    def flops(self) -> int:
        """All additions and multiplications."""
        return self.products + self.convolutions

    def seconds(self, share: float) -> float:
        """Return nominal seconds of one forward pass, products at a `share` of the rate."""
        return self.products / (share * RATE) + self.convolutions / (CONVOLUTION_SHARE * RATE)


def forward_work(model: nn.Module, samples: SampleSet) -> ForwardWork:
    """Count the operations of one sample's forward pass: convolutions, and all others."""
    frozen = frozen_copy(model, torch.float32)
    x = network_inputs(samples.x[:1], frozen, torch.float32)
    with OperationCounter() as counter, torch.no_grad():
        frozen(x.clone())
    convolutions = sum(n for op, n in counter.counts.items() if "convolution" in op)
    return ForwardWork(convolutions, counter.counts.total() - convolutions)


@dataclass(frozen=True, slots=True)
class Retraining:
    """The cost of the removal curve."""

    networks: int  # trained in all
    updates: int  # of one network
    flops: float  # additions and multiplications
    seconds: float  # nominal ones


def retraining(
    work: ForwardWork, train: SampleSet, val: SampleSet | None, seeds: int
) -> Retraining:
    """Return the cost of a removal curve with `seeds` networks per point."""
    recipe = task_recipe(train)
    n_rest = make_splits(train, val, 1).train_idx.shape[1]
    batch = min(recipe.batch_size or len(train), len(train))
    points = len(usable_fractions(n_rest)) - 1
    # On all samples; without a validation part also on all but the fifth that each is judged on.
    n_full = 2 if val is None else 1
    networks = seeds * (n_full + RANKINGS * points)
    passes = 3.0 * batch * recipe.steps * networks  # forward, and backward twice that
    seconds = passes * work.seconds(CURVE_SHARE) + (n_full + points) * recipe.steps * CURVE_UPDATE
    return Retraining(networks, recipe.steps, passes * work.flops, seconds)


@dataclass(frozen=True, slots=True)
class ActPlan:
    """The sizes by which the table of actions is measured within the budget."""

    parts: int  # held-out parts: 1, or fifths of the training samples
    seeds: int  # models per action in each part
    updates: int  # of one network
    # Nominal seconds that one model an action and seed takes over all parts; None of the user's own
    # model, whose fits are not predicted.
    per_fit: float | None

    @property
    def networks(self) -> int:
        """Networks that are trained for one action."""
        return self.seeds * self.parts


def act_plan(
    work: ForwardWork,
    train: SampleSet,
    val: SampleSet | None,
    settings: RunSettings,
    fewest: int = FEWEST,
) -> ActPlan | None:
    """Return how many parts and seeds the budget of the actions pays for; None if none.

    Args:
        work: of one sample's way through the network.
        train: the training samples.
        val: the validation samples, or None.
        settings: of the run.
        fewest: samples below which nothing is compared.

    Returns:
        The most parts and seeds with which all actions are likely to be retrained; else one part
        and two seeds, with which some actions are left out.
    """
    max_seeds = ceil(MODELS * settings.curve_seeds)
    if settings.curve_seeds < 2 or len(train) < fewest or not seconds_of(settings, train) > 0:
        return None
    parts = 1
    n_train = len(train)  # samples that a model learns from
    if val is None or val.split_off:
        parts = min(FIFTHS, max(1, ceil(WANTED * FIFTHS / len(train))))
        n_train = len(train) * (FIFTHS - 1) // FIFTHS
    updates = network_updates(n_train)
    pass_seconds = work.seconds(ACT_SHARE)
    fit_seconds = updates * (3.0 * min(BATCH, n_train) * pass_seconds + ACT_UPDATE / max_seeds)
    # Twice as many models in all as one part would have: held-out samples vary more than models.
    if parts == 1:
        n_seeds = max_seeds
    else:
        n_seeds = max(2, ceil(2 * max_seeds / parts))
    if settings.estimator is not None:
        return ActPlan(parts, n_seeds, updates, None)
    for n_parts, seeds in ((parts, n_seeds), (parts, 2), (1, max_seeds), (1, 2)):
        per_fit = fit_seconds * seeds * n_parts
        plan = ActPlan(n_parts, seeds, updates, per_fit)
        if most_fits() * per_fit <= seconds_of(settings, train):
            return plan
    if 3 * per_fit <= seconds_of(settings, train):
        return plan
    return None


def affordable_networks(
    work: ForwardWork, train: SampleSet, val: SampleSet | None, settings: RunSettings
) -> int:
    """Return the number of networks per point of the curve that the budget pays for.

    Returns:
        At most `curve_seeds`. Effects at trained networks need one, whatever it takes. Of the
        user's own model all are fitted, as the time of its fits is not predicted.
    """
    if settings.estimator is not None:
        if seconds_of(settings, train) > 0:
            return settings.curve_seeds
        return 0
    seeds = settings.curve_seeds
    fewest = int(settings.attribution_at == "trained")
    budget = seconds_of(settings, train)
    while seeds > fewest and retraining(work, train, val, seeds).seconds > budget:
        seeds -= 1
    return seeds


def budget_fact(
    work: ForwardWork, train: SampleSet, val: SampleSet | None, settings: RunSettings, seeds: int
) -> dict[str, str]:
    """Return the fact of what the budget left out and how to get it; {} if nothing."""
    if seeds == settings.curve_seeds:
        return {}
    if settings.estimator is not None:
        return {BUDGET: "left out: your model is retrained where --budget is above 0"}
    seconds = retraining(work, train, val, settings.curve_seeds).seconds
    outcome = "left out"
    if seeds:
        outcome = f"{seeds} of {settings.curve_seeds} networks per point"
    return {
        BUDGET: f"{outcome}: all would take about {seconds:,.0f} s on two cores, more "
        f"than {seconds_of(settings, train):g} s; --budget {1.01 * seconds:.0f} trains them"
    }
