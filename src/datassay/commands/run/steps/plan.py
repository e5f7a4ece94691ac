"""The plan, `datassay run --plan`: sizes, bytes, operations and seconds before anything runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from rich.console import RenderableType
from rich.table import Table

from datassay.collect.collection import plan_collection
from datassay.collect.form import Form
from datassay.commands.run.settings import RunSettings
from datassay.commands.run.steps.check_settings import check_settings
from datassay.commands.run.steps.own_model import with_network
from datassay.commands.run.steps.plan_costs import LOADED_BYTES, PlanStep, plan_steps
from datassay.commands.run.steps.scores import attribution_of
from datassay.data.samples import SampleSet
from datassay.machine import available_memory, held_bytes, matrix_rate
from datassay.models.build import build_model
from datassay.score.registry import Sizes, further_scores
from datassay.store.location import FEATURES, inside

# A run of that many outputs of samples may take minutes; one that takes a minute says so first.
MANY_OUTPUTS, LONG_SECONDS = 100_000, 60
EMBED = "embed"


@dataclass(frozen=True, slots=True)
class Plan:
    """All steps of a run, and whether they fit.

    Attributes:
        steps: in order.
        program_bytes: what the process holds besides: libraries and samples.
        available_bytes: memory this machine has free, beside what this process holds.
        form: how the Jacobian would be collected.
    """

    steps: tuple[PlanStep, ...]
    program_bytes: float
    available_bytes: float
    form: Form

    @property
    def peak_bytes(self) -> float:
        """Most memory the process will hold at once."""
        return self.program_bytes + max(step.bytes for step in self.steps)

    @property
    def fits(self) -> bool:
        """Whether what is yet to be taken is free."""
        return LOADED_BYTES + max(step.bytes for step in self.steps) <= self.available_bytes


def plan(train: SampleSet, val: SampleSet | None, settings: RunSettings) -> Plan:
    """What a run would do: its steps, memory, and seconds good to a factor of about two."""
    check_settings(settings, len(train))
    program = held_bytes() + LOADED_BYTES
    settings = with_network(settings, train)
    model = build_model(settings.model, train, weights=settings.weights, seed=settings.seed)
    kept = None if settings.store is None else inside(settings.store, FEATURES)
    form = plan_collection(model, train, val, store=kept, **settings.collection_settings)
    rate = {name: matrix_rate(getattr(torch, name)) for name in ("float64", "float32")}
    n_queries = len(train if val is None else val)
    attributed = attribution_of(settings, form, len(train), n_queries, train.is_classification)
    steps = plan_steps(model, train, val, form, replace(settings, attribution=attributed), rate)
    *steps, page = steps
    further = _further_steps(form, len(train), 0 if val is None else len(val), rate["float64"])
    steps = [*_embedding_step(train, 0 if val is None else len(val)), *steps, *further, page]
    return Plan(tuple(steps), program, available_memory(), form)


def _further_steps(form: Form, n: int, m: int, rate: float) -> list[PlanStep]:
    """The scores that other packages add, of those that say what they cost."""
    sizes = Sizes(
        train=n,
        val=m,
        outputs=form.n_outputs,
        parameters=form.n_parameters,
        eigenproblem=form.eigenproblem,
    )
    costs = {one: one.cost(sizes) for one in further_scores() if one.cost is not None}
    return [PlanStep(one.name, one.help, 0.0, c, c / rate) for one, c in costs.items()]


def _embedding_step(train: SampleSet, n_val: int) -> list[PlanStep]:
    """What a frozen encoder takes, measured on a first batch."""
    encoding = train.encoding
    if encoding is None or not encoding.name:
        return []
    n = len(train) + n_val
    detail = f"{n:,} samples by {encoding.name}, {encoding.width:,} numbers each"
    detail += "; less where --store has them"
    return [PlanStep(EMBED, detail, 4.0 * n * encoding.width, 0.0, encoding.seconds)]


def long_wait(train: SampleSet, val: SampleSet | None, settings: RunSettings) -> str:
    """How long a run will take and what shortens it; empty of what takes no minute."""
    if len(train) * max(1, train.n_classes) < MANY_OUTPUTS:  # planning takes a second itself
        return ""
    steps = [step for step in plan(train, val, settings).steps if step.name != EMBED]  # done by now
    if (total := sum(step.seconds for step in steps)) < LONG_SECONDS:
        return ""
    longest = sorted(steps, key=lambda step: -step.seconds)[:3]
    shares = ", ".join(f"{step.name} {step.seconds:.0f} s" for step in longest)
    return (
        f"this takes about {total:.0f} s, most of it {shares}. Shorter: a smaller projection, "
        "attribution none, or fewer samples; `datassay run --plan` shows the seconds of each."
    )


def lines(plan: Plan) -> list[RenderableType]:
    """The plan as a table and a sentence, for the terminal."""
    table = Table(title="Plan", title_justify="left")
    for name in ("step", "what"):
        table.add_column(name)
    for name in ("memory", "operations", "seconds"):
        table.add_column(name, justify="right")
    for step in plan.steps:
        work = f"{step.flops:.1e}" if step.flops else ""
        table.add_row(
            step.name, step.detail, f"{step.bytes / 1e9:.2f} GB", work, f"{step.seconds:.1f}"
        )
    total = sum(step.seconds for step in plan.steps)
    fits = "fits" if plan.fits else "does NOT fit"
    return [
        table,
        f"About {total:.0f} s; peak {plan.peak_bytes / 1e9:.2f} GB, of which the program and its "
        f"samples take {plan.program_bytes / 1e9:.2f} GB. The rest {fits} in the "
        f"{plan.available_bytes / 1e9:.1f} GB free. Nothing was run.",
    ]
