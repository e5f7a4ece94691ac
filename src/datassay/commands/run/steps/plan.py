"""The plan of `datassay run --plan`: sizes, bytes, operations and seconds before anything runs."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from importlib import import_module

import numpy as np
import torch
from rich.console import RenderableType
from rich.table import Table
from torch import nn

from datassay.act.choose.kinds import action_kinds, likely_fits
from datassay.act.choose.learner import trial_seconds
from datassay.act.remove.removal_curve import task_recipe
from datassay.collect.collection import collection_step, plan_collection
from datassay.collect.curvature.output_loss import task_loss
from datassay.collect.form import Form, step_bytes
from datassay.commands.run.settings import RunSettings
from datassay.commands.run.steps.acts import CURVE_MODELS
from datassay.commands.run.steps.budget import (
    ACT_SHARE,
    ACT_UPDATE,
    RANKINGS,
    act_plan,
    affordable_networks,
    forward_work,
    retraining,
    seconds_of,
)
from datassay.commands.run.steps.projection import projection_step
from datassay.commands.run.steps.scores import (
    MOST_GROUP_WORK,
    attribution_of,
    group_work,
    pair_work,
)
from datassay.commands.run.steps.settings import check_settings, retrained_network, with_network
from datassay.data.samples import SampleSet
from datassay.machine import available_memory, resident_bytes
from datassay.models.build import build_model
from datassay.optional import coalesce, text_if
from datassay.plan import PlanStep, time_call
from datassay.report.wording import count
from datassay.score.influence.plan import influence_plan
from datassay.score.registry import Sizes, score_steps
from datassay.store.location import FEATURES, inside
from datassay.train.learner import Estimators, Networks
from datassay.train.recipe import Recipe, network_recipe
from datassay.train.retrain import BATCH_BYTES
from datassay.train.together import STACK
from datassay.train.training import train_networks

# A run of so many samples times outputs is planned first; if it takes so many seconds it says so.
MANY_OUTPUTS, LONG_SECONDS = 100_000, 60
EMBED = "embed"
BUDGETED = ("retrain", "compare actions")  # what --budget shortens
# What a plan says of steps whose details are sizes of matrices.
PLAIN_WORDS = {
    "collect": "how each sample moves the network's outputs",
    "eigendecomposition": "one large system of equations solved, for all scores",
    "leave one out": "each sample left out of the fit in turn, without training again",
    "attribution": "which training samples raise and lower each held-out prediction",
    "label issues": "how likely each label is wrong",
    "influence": "which training samples support or contradict each other",
}
LEAST_BYTES, LONG_STEP = 5e6, 10  # that a plan shows; seconds from which it says what shortens them
# What a run loads after it was planned (torch.func, Plotly), and what the allocator keeps.
LOADED_BYTES = 1.5e8
# Small calls that the page takes, and that each sample adds.
PAGE_CALLS, PAGE_SAMPLE_CALLS = 3e4, 1.0
# Starts of processes that an engine takes; the work then takes as long as without, on these cores.
ENGINE_STARTS = {"processes": 1.0, "ray": 4.0}
# What is timed to know how fast models train: updates of networks, rows of the user's model.
PILOT_UPDATES, PILOT_ROWS = 4, 1000


@dataclass(frozen=True, slots=True)
class Plan:
    """All steps of a run, and whether they fit into memory."""

    steps: tuple[PlanStep, ...]  # in order
    program_bytes: float  # what the process holds besides: libraries and samples
    available_bytes: float  # memory this machine has free, beside what this process holds
    form: Form  # how the Jacobian would be collected

    @property
    def peak_bytes(self) -> float:
        """The most memory that the process will hold at once."""
        return self.program_bytes + max(step.bytes for step in self.steps)

    @property
    def fits(self) -> bool:
        """Whether the memory that is yet to be taken is free."""
        return LOADED_BYTES + max(step.bytes for step in self.steps) <= self.available_bytes


def plan(train: SampleSet, val: SampleSet | None, settings: RunSettings) -> Plan:
    """Return a run's steps with memory and seconds, right to a factor of about two."""
    check_settings(settings, len(train))
    program = resident_bytes() + LOADED_BYTES
    settings = with_network(settings, train)
    model = build_model(settings.model, train, weights=settings.weights, seed=settings.seed)
    store = None
    if settings.store is not None:
        store = inside(settings.store, FEATURES)
    form = plan_collection(model, train, val, store=store, **settings.collection_settings)
    n_queries = len(coalesce(val, train))
    attributed = attribution_of(settings, form, len(train), n_queries, train.is_classification)
    settings = replace(settings, attribution=attributed)
    n = len(train)
    m = len(val or ())
    options = {f.name: getattr(settings, f.name) for f in fields(settings)}
    sizes = Sizes(form=form, train=n, val=m, classes=train.n_classes, options=options)
    steps = [
        *_plan_embedding(train, n + m),
        *([] if settings.rank_correlation is None else [projection_step(model, train, val, form)]),
        collection_step(model, train, n + m, form),
        *_plan_infrastructure(form, settings),
        *score_steps(sizes),
        *_plan_groups(form, train, m),
        *_plan_trainings(model, train, val, form, settings),
        PlanStep("page", "HTML, Parquet, JSON", 1e8, {"calls": PAGE_CALLS + n * PAGE_SAMPLE_CALLS}),
    ]
    return Plan(tuple(steps), program, available_memory(), form)


def _plan_embedding(train: SampleSet, n: int) -> list[PlanStep]:
    """Return [step of the frozen encoder], timed on its first batch; [] without one."""
    encoding = train.encoding
    if encoding is None or not encoding.name:
        return []
    detail = f"{n:,} samples by {encoding.name}, {encoding.width:,} numbers each"
    detail += "; less where --store has them"
    return [PlanStep(EMBED, detail, 4.0 * n * encoding.width, pilot=encoding.seconds)]


def _plan_infrastructure(form: Form, settings: RunSettings) -> Iterator[PlanStep]:
    """Yield steps of writing the Jacobian to --store, and of starting the engine, if asked."""
    if settings.store is not None:
        size = form.jacobian_bytes
        detail = f"{size / 1e9:.2f} GB in {settings.store}; "
        detail += "chunks found there already save their time"
        # Written and read back under two checksums and a digest, after Zarr is loaded.
        loading, _ = time_call(lambda: import_module("zarr"))
        yield PlanStep("store", detail, 0.0, {"bytes": 4 * size}, loading)
    starts = ENGINE_STARTS.get(settings.engine)
    if starts:
        detail = f"start {settings.engine}; seconds of the other steps are of this machine's "
        yield PlanStep("engine", f"{detail}cores alone", 0.0, {"starts": starts})


def _plan_groups(form: Form, train: SampleSet, m: int) -> list[PlanStep]:
    """Return [step of leaving out classes, sources and pairs]; [] if that takes too long."""
    works = [*group_work(train, form).values(), pair_work(len(train), m, form)]
    flops = sum(work for work in works if work <= MOST_GROUP_WORK)
    if not flops:
        return []
    detail = "each class or source as one, each sample with the one most like it"
    peak = step_bytes(form)["leave one out"]
    return [PlanStep("groups and pairs", detail, peak, {"thin": flops})]


def _plan_trainings(
    model: nn.Module, train: SampleSet, val: SampleSet | None, form: Form, settings: RunSettings
) -> Iterator[PlanStep]:
    """Yield the steps that train networks or fit the user's model."""
    net, _ = retrained_network(model, train, settings)
    n = len(train)
    work = forward_work(net, train)
    weights = 16.0 * sum(p.numel() for p in net.parameters())
    seeds = affordable_networks(work, train, val, settings)
    estimator = settings.estimator
    estimator_fit = 0.0
    if estimator is not None and seeds:
        estimator_fit = _time_fit(estimator, train)
    if seeds:
        cost = retraining(work, train, val, seeds)
        recipe = task_recipe(train)
        at_once = RANKINGS
        batch = min(recipe.batch_size or n, n)
        detail = f"{cost.networks} networks, {cost.updates} updates of {batch} samples each"
        if estimator is None:
            seconds_each = cost.updates * _time_update(net, train, recipe, at_once * seeds)
            seconds = cost.networks / (at_once * seeds) * seconds_each
        else:
            detail = f"{cost.networks} fits of your model"
            seconds = cost.networks * estimator_fit
        peak = weights * at_once * seeds
        yield PlanStep("retrain", detail, peak, pilot=seconds, counted=cost.flops)
    act = act_plan(work, train, val, settings)
    if act:
        estimated = [kind.fits for kind in action_kinds().values() if kind.estimate is not None]
        networks = likely_fits() * act.networks + CURVE_MODELS * sum(estimated)
        at_once = min(Networks([net]).at_once, STACK)
        detail = f"about {networks} networks, {count(act.parts, 'held-out part')}"
        fit = estimator_fit
        if estimator is None:
            update = _time_update(net, train, network_recipe(n), at_once)
            fit = act.updates * update / at_once
        seconds = min(seconds_of(settings, train), networks * fit)
        trials = trial_seconds(train, act.networks) if settings.is_open else 0.0
        if trials:
            detail += ", or fits of boosted trees or a linear model, whichever predicts better"
            seconds += min(seconds_of(settings, train), trials)
        yield PlanStep("compare actions", detail, weights * at_once, pilot=seconds)
    if settings.attribution_at == "trained" and settings.attribution != "none":
        effects = influence_plan(
            [model] * seeds, train, val, loss=task_loss(train), top=settings.top,
            seed=settings.seed,
        )  # fmt: skip
        detail = f"{count(seeds, 'network')}, curvature by layers"
        flops = float(effects.flops.sum())
        yield PlanStep(
            "trained effects", detail, effects.peak_bytes, pilot=effects.seconds, counted=flops
        )
    if settings.check:
        networks = settings.check + 1
        recipe = Recipe("sgd", 1e-9, batch_size=None)
        seconds_each = settings.steps * _time_update(model, train, recipe, 1)
        detail = f"{networks} networks, {settings.steps} updates of all {n} samples each"
        passes = 3.0 * n * settings.steps * networks  # forward, and backward twice that
        flops = passes * forward_work(model, train).flops
        peak = BATCH_BYTES + 16.0 * form.n_parameters
        yield PlanStep("check", detail, peak, pilot=networks * seconds_each, counted=flops)


def _time_update(model: nn.Module, train: SampleSet, recipe: Recipe, networks: int) -> float:
    """Return seconds per update of networks trained side by side, timed on a few updates."""
    everything = torch.arange(len(train)).expand(networks, -1)
    pilot = replace(recipe, steps=PILOT_UPDATES)
    times = []
    train_networks(
        [model] * networks, train, everything, pilot,
        progress=lambda *_: times.append(time.perf_counter()),
    )  # fmt: skip
    return (times[-1] - times[0]) / (PILOT_UPDATES - 1)


def slowness(model: nn.Module, train: SampleSet) -> float:
    """Return seconds by the clock per nominal second of training on this machine, at least 1."""
    at_once = min(Networks([model]).at_once, STACK)
    recipe = network_recipe(len(train))
    seconds = _time_update(model, train, recipe, at_once) / at_once
    passes = 3.0 * min(recipe.batch_size or len(train), len(train))
    nominal = passes * forward_work(model, train).seconds(ACT_SHARE) + ACT_UPDATE / at_once
    return max(1.0, seconds / nominal)


def _time_fit(estimator: object, train: SampleSet) -> float:
    """Return the seconds of one fit of the user's model, scaled up from a fit to some rows."""
    rows = np.random.default_rng(0).permutation(len(train))[:PILOT_ROWS]
    seconds, _ = time_call(
        lambda: list(Estimators(estimator, 1, dtype=None).fits(train, rows[None]))
    )
    return seconds * len(train) / len(rows)


def long_wait(train: SampleSet, val: SampleSet | None, settings: RunSettings) -> str:
    """Return a sentence on the seconds of a run and how to shorten it; "" if it is short."""
    if len(train) * max(1, train.n_classes) < MANY_OUTPUTS:  # planning takes a second itself
        return ""
    steps = [step for step in plan(train, val, settings).steps if step.name != EMBED]  # done by now
    total = sum(step.seconds for step in steps)
    if total < LONG_SECONDS:
        return ""
    longest = sorted(steps, key=lambda step: -step.seconds)[:3]
    shares = ", ".join(f"{step.name} {step.seconds:.0f} s" for step in longest)
    return (
        f"this takes about {total:.0f} s, most of it {shares}. Shorter: a smaller projection, "
        "attribution none, or fewer samples; `datassay run --plan` shows the seconds of each."
    )


def lines(plan: Plan) -> list[RenderableType]:
    """Return what the run would take, how to shorten and to start it, and a table of its steps."""
    table = Table()
    for name in ("step", "what"):
        table.add_column(name)
    for name in ("memory", "seconds"):
        table.add_column(name, justify="right")
    for step in plan.steps:
        memory = text_if(step.bytes >= LEAST_BYTES, f"{step.bytes / 1e9:.2f} GB")
        seconds = "<1" if step.seconds < 1 else f"{step.seconds:.0f}"
        words = PLAIN_WORDS.get(step.name, step.detail)
        table.add_row(step.name, words, memory, seconds)
    total = sum(step.seconds for step in plan.steps)
    fits = "fits" if plan.fits else "does NOT fit"
    seconds_of_step = {step.name: step.seconds for step in plan.steps}
    shorter = {
        EMBED: "--store DIR keeps the embeddings for the next run",
        "retrain": "--budget SECONDS stops training networks and comparing actions after so long",
    }
    seconds_of_step["retrain"] = sum(seconds_of_step.get(name, 0) for name in BUDGETED)
    hints = [text for name, text in shorter.items() if seconds_of_step.get(name, 0) >= LONG_STEP]
    return [
        f"About {total:.0f} s; peak {plan.peak_bytes / 1e9:.2f} GB, of which the program and its "
        f"samples take {plan.program_bytes / 1e9:.2f} GB. The rest {fits} in the "
        f"{plan.available_bytes / 1e9:.1f} GB free. Nothing was run.",
        *([f"Shorter: {'; '.join(hints)}."] if hints else []),
        "To start it, type the same without --plan.",
        table,
    ]
