"""The plan, `datassay run --plan`: sizes, bytes, operations and seconds before anything runs."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from datassay.act.removal_curve import FRACTIONS, task_recipe
from datassay.collect.collect import plan_collection
from datassay.collect.form import Form, available_memory
from datassay.data.samples import SampleSet
from datassay.run import RunSettings, starting_networks
from datassay.score.dynamics import N_NODES

# Operations of one symmetric eigendecomposition, in units of size³ matrix products' operations.
EIGEN_WORK = 10.0
# Share of the matrix-product rate that each kind of work reaches here, measured on two cores.
JACOBIAN_SHARE, TRAINING_SHARE, SCORING_SHARE = 0.25, 0.12, 0.5
RANKINGS = 6


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step of a run, before it runs.

    Attributes:
        name: of the step.
        detail: what it works on and what was chosen.
        bytes: most memory it holds.
        flops: additions and multiplications.
        seconds: expected on this machine.
    """

    name: str
    detail: str
    bytes: float
    flops: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Plan:
    """All steps of a run, and whether they fit.

    Attributes:
        steps: in order.
        peak_bytes: the largest of their bytes.
        available_bytes: memory this machine has free.
        form: how the Jacobian would be collected.
    """

    steps: tuple[PlanStep, ...]
    peak_bytes: float
    available_bytes: float
    form: Form


def plan(train: SampleSet, val: SampleSet, settings: RunSettings) -> Plan:
    """Count a run's work and estimate its time from this machine's matrix-product rate.

    Args:
        train: the training samples.
        val: the validation samples.
        settings: what would run.

    Returns:
        The plan. Its seconds come from a quarter-second measurement and are good to a factor of
        about two.

    Raises:
        DatassayError: as the run itself would raise.
    """
    model = starting_networks(train, settings)[0]
    form = plan_collection(model, train, val, **settings.collection_settings)
    rate = {name: matrix_rate(getattr(torch, name)) for name in ("float64", "float32")}
    steps = [
        _collect_step(form, len(train) + len(val), rate),
        *_score_steps(form, len(train), len(val), rate["float64"]),
        *_training_step(form, train, settings, rate["float32"]),
        PlanStep("page", "HTML, Parquet, JSON", 1e8, 0.0, 2.0),
    ]
    peak = max(step.bytes for step in steps)
    return Plan(tuple(steps), peak, available_memory(), form)


def matrix_rate(dtype: torch.dtype, size: int = 1024) -> float:
    """Operations a second of a matrix product, the best of five after one to warm up.

    Args:
        dtype: of the matrices.
        size: their order.

    Returns:
        Additions and multiplications a second.
    """
    a = torch.ones(size, size, dtype=dtype)
    seconds = []
    for _ in range(6):
        start = time.perf_counter()
        a @ a
        seconds.append(time.perf_counter() - start)
    return 2 * size**3 / min(seconds[1:])


def _collect_step(form: Form, n_samples: int, rate: dict[str, float]) -> PlanStep:
    # Jacobians run at the model's precision, kernel products always in float64.
    passes = 2.0 * n_samples * form.n_parameters * max(1, form.n_rows // max(1, n_samples))
    seconds = passes / (JACOBIAN_SHARE * rate[form.precision]) + form.flops / rate["float64"]
    detail = f"{form.summary}; {form.reason}; {form.chunk} samples a call"
    return PlanStep("collect", detail, form.jacobian_bytes + form.result_bytes, form.flops, seconds)


def _score_steps(form: Form, n: int, m: int, rate: float) -> list[PlanStep]:
    p, b = form.eigenproblem, form.n_rows // n
    columns = form.n_outputs // b
    eigen = EIGEN_WORK * p**3
    dual = form.representation == "kernel"
    rows = 2.0 * (m * b if dual else n * b + m * b) * p**2
    contour = n * columns * p * (4.0 * N_NODES * b + 2.0 * min(m * b, p))
    leverages = 2.0 * n * b * p * N_NODES * (b + columns)
    labels = (0.0 if b == 1 and dual else EIGEN_WORK * n**3) + n**3 + 132.0 * n * n * columns * b
    held = form.peak_bytes
    return [
        PlanStep(
            "decompose",
            f"{p} x {p} eigenproblem, {'dual' if dual else 'primal'}",
            held,
            eigen + rows,
            (eigen + rows) / rate,
        ),
        PlanStep(
            "leave one out",
            f"{n} removals, {columns} x {b} outputs, {N_NODES // 2} shifts",
            held,
            contour + leverages,
            (contour + leverages) / (SCORING_SHARE * rate),
        ),
        PlanStep(
            "label issues", f"{n} x {n} kernel", held, labels, labels / (SCORING_SHARE * rate)
        ),
    ]


def _training_step(
    form: Form, train: SampleSet, settings: RunSettings, rate: float
) -> list[PlanStep]:
    if not settings.curve_seeds:
        return []
    recipe = task_recipe(train)
    batch = min(recipe.batch_size or len(train), len(train))
    at_once = RANKINGS * settings.curve_seeds
    networks = settings.curve_seeds + at_once * (len(FRACTIONS) - 1)
    flops = 6.0 * form.n_parameters * batch * recipe.steps * networks
    detail = f"{networks} networks, {recipe.steps} updates of {batch} samples each"
    held = 4.0 * 4 * form.n_parameters * at_once
    return [PlanStep("retrain", detail, held, flops, flops / (TRAINING_SHARE * rate))]
