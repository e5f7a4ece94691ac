"""The steps of a plan: what each works on, holds, computes and takes, counted before it runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

import numpy as np
from torch import nn

from datassay.act.choose.action import most_fits
from datassay.act.remove.removal_curve import task_recipe
from datassay.collect.collection import plan_collection
from datassay.collect.form import (
    EIGEN_WORK,
    MOST_PARTNERS,
    NOMINAL_RATE,
    SYMMETRIC_WORK,
    Form,
    removal_bytes,
    step_bytes,
)
from datassay.collect.gradients.objective import MOST_SUMMED
from datassay.commands.run.settings import RunSettings
from datassay.commands.run.steps.budget import (
    RANKINGS,
    TRAINING_CONVOLUTION_SHARE,
    ForwardWork,
    act_plan,
    affordable_networks,
    forward_work,
    retraining,
)
from datassay.commands.run.steps.groups import MOST_GROUP_WORK, group_work, pair_work
from datassay.data.samples import SampleSet
from datassay.report.wording import count
from datassay.score.compare.projection_quality import DRAWS, MOST_ROWS, N_FEATURES, N_SAMPLES
from datassay.score.effects import CHUNK_VALUES
from datassay.score.influence.block_basis import LARGEST_EXACT
from datassay.score.information.average import FRACTIONS
from datassay.score.label_issues import LARGEST_KERNEL
from datassay.score.labels.ridge import RIDGES
from datassay.score.linear.training_run import N_NODES
from datassay.train.retrain import BATCH_BYTES

# All constants here were measured on two cores. `python -m bench speed/plan` plans and runs several
# sizes, its case "fit" says by how much each step's seconds then were off.
# Share of the matrix-product rate that each kind of work reached.
JACOBIAN_SHARE = 0.25
CHECK_SHARE, SEVERAL_SHARE = 0.6, 0.4
SCORING_SHARE, BLOCK_SHARE, LABEL_SHARE = 0.5, 0.05, 0.15
# The first call of torch.func in a process.
FIRST_CALL_SECONDS = 1.0
# Of one projected value of one output, gathered from two factors and added up.
GATHER_SECONDS = 3.5e-9
# The search for the label noise: evaluations of a likelihood, and what each takes, however few
# samples, and of each sample and class.
EVALUATIONS, EVALUATION_SECONDS, EVALUATION_VALUE_SECONDS = 1000, 1e-3, 2.5e-8
# Of one pair of samples: the passes over its influence that give the moments.
PAIR_SECONDS = 1.4e-7
# Of one effect: its share of the search for the largest, and of the outputs it is read from.
EFFECT_SECONDS, OUTPUT_SECONDS = 2e-8, 1e-8
# The page, and what of it and of the findings grows with the samples.
PAGE_SECONDS, PAGE_SAMPLE_SECONDS = 0.6, 8e-5
# What a run loads after it was planned (torch.func, Plotly), and what the allocator keeps.
LOADED_BYTES = 1.5e8
# Bytes a second that a store takes: two checksums, a digest, written and read back and checked.
STORE_RATE = 3e8
# What starting an engine takes; on the same cores the work then takes as long as without.
ENGINE_SECONDS = {"in_process": 0.0, "processes": 1.0, "ray": 5.0}
# Loading Zarr, making a store and closing it.
STORE_SECONDS = 1.0
# Columns a block of modes that stand for all outputs.
MODE_RANK = 3


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step of a run, before it runs.

    Attributes:
        detail: what it works on and what was chosen.
        bytes: most memory it holds, beyond the program and its samples.
        flops: additions and multiplications.
    """

    name: str
    detail: str
    bytes: float
    flops: float
    seconds: float


def plan_steps(
    model: nn.Module,
    train: SampleSet,
    val: SampleSet | None,
    form: Form,
    settings: RunSettings,
    rates: dict[str, float],
) -> list[PlanStep]:
    """The steps of a run, in their order.

    Returns:
        One entry a step. The attribution of `settings` is as `attribution_of` gives it; `rates`
        are operations a second of a matrix product in "float64" and "float32".
    """
    n, m, work = len(train), 0 if val is None else len(val), forward_work(model, train)
    trained = settings.attribution_at == "trained"
    at_start = replace(settings, attribution="none") if trained else settings
    seeds = affordable_networks(work, train, val, settings)
    return [
        *_comparison_step(form, model, train, val, work, rates, settings),
        _collect_step(form, work, n + m, rates),
        *_store_step(form, settings.store),
        *_engine_step(settings.engine),
        *_score_steps(form, n, m, rates, at_start, train.n_classes),
        *_several_step(form, train, m, rates["float64"]),
        *_subset_step(form, n, m, rates, settings),
        *_training_step(form, work, train, val, seeds, rates["float32"]),
        *_acts_step(form, work, train, val, settings, rates["float32"]),
        *_trained_effects_step(form, work, n, m or n, seeds, settings, rates["float32"]),
        *_check_step(form, work, n, settings, rates["float32"]),
        _page_step(n),
    ]


def _collect_step(form: Form, work: ForwardWork, n: int, rate: dict[str, float]) -> PlanStep:
    # Jacobians run at the model's precision, kernel products always in float64. Dense layers and
    # convolutions factor, so a backward pass an output needs no gradient of the weights; where all
    # of it is wanted, those of convolutions are multiplied out.
    k, speed = form.n_outputs, JACOBIAN_SHARE * rate[form.precision]
    passes = 1 + k if form.projection is not None else 1 + 2 * k
    jacobian = n * work.seconds(speed / (1 + k), speed / passes) - n * k * work.last / speed
    seconds = FIRST_CALL_SECONDS + jacobian + form.kernel_flops / rate["float64"]
    if form.projection is not None:
        seconds += GATHER_SECONDS * n * k * form.n_features
    detail = f"{form.summary}; {form.reason}; {form.chunk} samples a call"
    return PlanStep("collect", detail, step_bytes(form)["collect"], form.flops, seconds)


def _comparison_step(
    form: Form,
    model: nn.Module,
    train: SampleSet,
    val: SampleSet | None,
    work: ForwardWork,
    rate: dict[str, float],
    settings: RunSettings,
) -> list[PlanStep]:
    """Choosing the projection: exact scores of some samples, and theirs from each projection."""
    if settings.rank_correlation is None:
        return []
    n = min(N_SAMPLES, len(train), MOST_ROWS // form.n_outputs)
    few = train.subset(np.arange(n))
    few_val = None if val is None else val.subset(np.arange(min(n, len(val))))
    m = 0 if few_val is None else len(few_val)
    exact = plan_collection(model, few, few_val, outputs="joint", projection=None)
    alone = replace(settings, attribution="none")
    steps = [
        _collect_step(exact, work, n + m, rate),
        *_score_steps(exact, n, m, rate, alone, train.n_classes),
    ]
    seconds = sum(step.seconds for step in steps)
    if form.projection is not None or form.landmarks:
        # Rows an output are decomposed anew each time; one row a sample costs its collection.
        again = seconds if form.outputs == "joint" else 0.0
        for p in N_FEATURES:
            tried = replace(form, n_features=p)
            seconds += DRAWS * (again + _collect_step(tried, work, n + m, rate).seconds)
    detail = f"{n} samples scored exactly and projected; the form may then differ from this plan's"
    flops, most = sum(step.flops for step in steps), max(step.bytes for step in steps)
    return [PlanStep("compare projections", detail, most, flops, seconds)]


def _store_step(form: Form, store: str | None) -> list[PlanStep]:
    if store is None:
        return []
    size = form.jacobian_bytes
    detail = f"{size / 1e9:.2f} GB in {store}; chunks found there already save their time"
    return [PlanStep("store", detail, 0.0, 0.0, STORE_SECONDS + size / STORE_RATE)]


def _engine_step(engine: str) -> list[PlanStep]:
    if engine == "in_process":
        return []
    detail = f"start {engine}; seconds of the other steps are of this machine's cores alone"
    return [PlanStep("engine", detail, 0.0, 0.0, ENGINE_SECONDS[engine])]


def _score_steps(
    form: Form, n: int, m: int, rates: dict[str, float], settings: RunSettings, classes: int = 0
) -> list[PlanStep]:
    p, b, dual = form.eigenproblem, form.n_rows // n, form.representation == "kernel"
    rate = rates["float64"]
    # Products over all rows of features, in their own precision; each reading of the rows is one.
    fast = rates["float64" if form.products.precision == "float64" else "float32"]
    eigen = EIGEN_WORK * p**3
    products = 2.0 * m * b * p**2 if dual else SYMMETRIC_WORK * (n + m) * b * p**2
    pairs = n * min(n, MOST_PARTNERS)
    # The rows are read once for the partners and once for all.
    influence = 2.0 * p * (pairs + (0 if dual else 2 * n * b * p))
    held = step_bytes(form)
    decompose = PlanStep(
        "decompose",
        f"{p} x {p} eigenproblem, {'dual' if dual else 'primal'}",
        held["decompose"],
        eigen + products,
        eigen / rate + products / fast,
    )
    partners = f"{min(n, MOST_PARTNERS)} partners a sample"
    return [
        decompose,
        *_removal_steps(form, n, m, (rate, fast), settings),
        *([_divergence_step(form, n, rate)] if settings.smoothing == "kl" else []),
        _label_step(form, n, rate, fast, classes),
        PlanStep(
            "influence",
            partners,
            held["influence"],
            influence,
            influence / fast + PAIR_SECONDS * pairs,
        ),
    ]


def _removal_steps(
    form: Form, n: int, m: int, speeds: tuple[float, float], settings: RunSettings
) -> list[PlanStep]:
    p, b, dual = form.eigenproblem, form.n_rows // n, form.representation == "kernel"
    columns, (rate, fast) = form.n_outputs // b, speeds
    reading = 0.0 if dual else 2.0 * n * b * p**2
    # The effects hold every changed output; without them products of the queries are smaller.
    attributes = settings.attribution != "none"
    m = n if attributes and not m else m  # the training samples stand in
    queries = m * b if attributes or m * b <= p else (p if dual else SYMMETRIC_WORK * p / 2)
    modes = not (attributes or dual) and b == 1 and m > p
    taken = min(columns, MODE_RANK) if modes else columns
    rotated = 4.0 * p**3 if modes else 0.0  # products of the queries, into the eigenbasis
    outputs = 2.0 * n * taken * p * queries
    contour = 4.0 * n * taken * p * N_NODES * b
    changes = 0.0 if attributes else outputs
    # With several rows a sample, leverages are many b x b products, too small to be fast.
    small = SCORING_SHARE if b == 1 else BLOCK_SHARE
    leverages = 2.0 * n * b * p * N_NODES * (b + columns)
    seconds = reading / fast + rotated / rate + (contour / rate + changes / fast) / SCORING_SHARE
    held = step_bytes(form)["leave one out"]
    if attributes:  # which holds the changed outputs too, and takes fewer removals at once
        held += removal_bytes(form, CHUNK_VALUES) - removal_bytes(form)
    leave = PlanStep(
        "leave one out",
        f"{n} removals, {columns} x {b} outputs, {N_NODES // 2} shifts",
        held,
        reading + rotated + contour + changes + leverages,
        seconds + leverages / (small * rate),
    )
    effects = outputs if attributes else None
    return [leave, *_attribution_step(n, m, columns * b, effects, settings.top, rate)]


def _divergence_step(form: Form, n: int, rate: float) -> PlanStep:
    p, b = form.eigenproblem, form.n_rows // n  # as `kl_information` counts
    flops = n * (2.0 * n * b * p**2 + (10 + 30 * form.n_outputs // b) * p**3)
    return PlanStep("divergence", f"{n} noises of SGD", 8.0 * n * p, flops, flops / rate)


def _label_step(form: Form, n: int, rate: float, fast: float, classes: int) -> PlanStep:
    p, b = form.eigenproblem, form.n_rows // n
    columns, held = form.n_outputs // b, step_bytes(form)["label issues"]
    # Two offsets a penalty, and one more fit, to the probable labels.
    fits = 2.0 * len(RIDGES) + 4.0
    search = EVALUATIONS * (classes > 0) * 6.0 * n * classes**2
    seconds = search / rate
    if classes:
        seconds += EVALUATIONS * (EVALUATION_SECONDS + EVALUATION_VALUE_SECONDS * n * classes)
    if form.representation == "features" and (b == 1 or n > LARGEST_KERNEL):
        rows = 2 * 2.0 * n * b * p**2  # read twice
        fits *= n * b * p * (b + columns)
        detail = f"{p} x {p} systems, {len(RIDGES)} penalties"
        seconds += rows / fast + fits / (LABEL_SHARE * rate)
        return PlanStep("label issues", detail, held, rows + fits + search, seconds)
    fits = EIGEN_WORK * n**3 * (b > 1) + fits * n * n * columns * b
    detail = f"{n} x {n} kernel, {len(RIDGES)} penalties"
    seconds += fits / (LABEL_SHARE * rate)
    return PlanStep("label issues", detail, held, fits + search, seconds)


def _attribution_step(
    n: int, m: int, n_outputs: int, flops: float | None, top: int, rate: float
) -> list[PlanStep]:
    if flops is None:
        return []
    values = 3.0 * min(CHUNK_VALUES, n * m * n_outputs) + 4.0 * m * min(top, n)
    detail = f"{n} x {m} effects, the {min(top, n)} largest kept each way"
    seconds = flops / (SCORING_SHARE * rate) + n * m * (EFFECT_SECONDS + n_outputs * OUTPUT_SECONDS)
    return [PlanStep("attribution", detail, 8.0 * values, flops, seconds)]


def _subset_step(
    form: Form, n: int, m: int, rates: dict[str, float], settings: RunSettings
) -> list[PlanStep]:
    if not settings.subsets:
        return []
    alone, parts = replace(settings, attribution="none"), []
    for size in (max(2, round(share * n)) for share in FRACTIONS):
        subset = replace(form, n_rows=size * (form.n_rows // n))
        parts += _score_steps(subset, size, m, rates, alone)[:2]  # decompose, leave one out
    detail = f"{settings.subsets} subsets of each of {len(FRACTIONS)} sizes"
    flops, seconds = (
        settings.subsets * sum(getattr(p, f) for p in parts) for f in ("flops", "seconds")
    )
    held = form.result_bytes + max(p.bytes for p in parts)
    return [PlanStep("random subsets", detail, held, flops, seconds)]


def _training_step(
    form: Form,
    work: ForwardWork,
    train: SampleSet,
    val: SampleSet | None,
    seeds: int,
    rate: float,
) -> list[PlanStep]:
    if not seeds:
        return []
    cost = retraining(work, train, val, seeds, rate)
    recipe = task_recipe(train)
    batch = min(recipe.batch_size or len(train), len(train))
    detail = f"{cost.networks} networks, {recipe.steps} updates of {batch} samples each"
    held = 16.0 * form.n_parameters * RANKINGS * seeds
    return [PlanStep("retrain", detail, held, cost.flops, cost.seconds)]


def _acts_step(
    form: Form,
    work: ForwardWork,
    train: SampleSet,
    val: SampleSet | None,
    settings: RunSettings,
    rate: float,
) -> list[PlanStep]:
    chosen = act_plan(work, train, val, settings, 2 * NOMINAL_RATE)  # as the run will choose
    if chosen is None:
        return []
    here = act_plan(work, train, val, replace(settings, budget=inf), rate)
    each = 0.0 if here is None else (here.per_fit or 0.0) / here.networks
    networks = most_fits() * chosen.networks
    detail = f"about {networks} networks, {count(chosen.parts, 'held-out part')}"
    held = 16.0 * form.n_parameters * chosen.seeds
    seconds = min(settings.budget, most_fits() * each * chosen.networks)
    return [PlanStep("compare acts", detail, held, 0.0, seconds)]


def _several_step(form: Form, train: SampleSet, m: int, rate: float) -> list[PlanStep]:
    works = [*group_work(train, form).values(), pair_work(len(train), m, form)]
    flops = sum(work for work in works if work <= MOST_GROUP_WORK)
    if not flops:
        return []
    detail = "each class or source as one, each sample with its likest"
    held = step_bytes(form)["leave one out"]
    return [PlanStep("groups and pairs", detail, held, flops, flops / (SEVERAL_SHARE * rate))]


def _trained_effects_step(
    form: Form,
    work: ForwardWork,
    n: int,
    m: int,
    seeds: int,
    settings: RunSettings,
    rate: float,
) -> list[PlanStep]:
    if settings.attribution_at != "trained" or settings.attribution == "none":
        return []
    p, k = form.n_parameters, min(form.n_outputs, MOST_SUMMED)
    # Gradients by each output and of each loss; the Hessian's blocks, at most LARGEST_EXACT wide;
    # one product of gradients.
    passes = 3.0 * (n * (k + 1) + m) * (work.products + work.convolutions)
    side = min(p, LARGEST_EXACT)
    flops = seeds * (passes + 2.0 * n * k * side * p + 2.0 * n * m * p)
    held = seeds * (8.0 * side * p + 4.0 * m * p)
    detail = f"{count(seeds, 'network')}, curvature by layers"
    return [PlanStep("trained effects", detail, held, flops, flops / rate)]


def _check_step(
    form: Form, work: ForwardWork, n: int, settings: RunSettings, rate: float
) -> list[PlanStep]:
    if not settings.check:
        return []
    networks = settings.check + 1  # and that of all samples
    passes = 3.0 * n * settings.steps * networks  # forward, and backward twice that
    one = work.seconds(CHECK_SHARE * rate, TRAINING_CONVOLUTION_SHARE * rate)
    flops = passes * (work.products + work.convolutions)
    detail = f"{networks} networks, {settings.steps} updates of all {n} samples each"
    return [PlanStep("check", detail, BATCH_BYTES + 16.0 * form.n_parameters, flops, passes * one)]


def _page_step(n: int) -> PlanStep:
    return PlanStep("page", "HTML, Parquet, JSON", 1e8, 0.0, PAGE_SECONDS + n * PAGE_SAMPLE_SECONDS)
