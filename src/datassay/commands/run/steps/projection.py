"""The choice of a projection that reaches a rank correlation."""

from dataclasses import dataclass, field, replace

import numpy as np
from torch import nn

from datassay.collect.collection import collection_step, plan_collection
from datassay.collect.form import Form
from datassay.commands.run.settings import RunSettings
from datassay.data.samples import SampleSet
from datassay.optional import coalesce
from datassay.plan import PlanStep, add_work
from datassay.progress import Progress
from datassay.score.attribution import removal_steps
from datassay.score.compare.projection_quality import (
    DRAWS,
    MOST_ROWS,
    N_FEATURES,
    N_SAMPLES,
    SCORES,
    ProjectionQuality,
    projection_quality,
)
from datassay.score.influence.linear import influence_steps
from datassay.score.labels.ridge import judge_steps
from datassay.score.registry import Sizes

CHOICE, REACHED, APPROXIMATED = PROJECTION_FACTS = (
    "Projection",
    "Rank correlation with exact scores",
    "Approximated",
)


@dataclass(frozen=True, slots=True)
class ChosenProjection:
    """The settings to run with, and why."""

    settings: RunSettings  # of the run, its projection chosen
    # For the page and the terminal; empty where nothing was asked for.
    facts: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()  # that the target was not reached, or none
    quality: ProjectionQuality | None = None  # what was measured; None where nothing was asked for


def choose_projection(
    model: nn.Module,
    train: SampleSet,
    val: SampleSet | None,
    settings: RunSettings,
    progress: Progress,
) -> ChosenProjection:
    """Measure and choose the smallest projection that reaches settings.rank_correlation."""
    target = settings.rank_correlation
    if target is None:
        return ChosenProjection(settings)
    form = plan_collection(model, train, val, **settings.collection_settings)
    is_exact = form.projection is None and not form.landmarks
    quality = projection_quality(
        model,
        train,
        val,
        n_features=() if is_exact else N_FEATURES,
        outputs=form.outputs,
        memory=settings.memory,
        seed=settings.seed,
        progress=progress,
        **settings.dynamics_settings,
    )
    if is_exact:
        index = None
        reached = quality.unprojected["information"]
        choice = f"none, {form.outputs} outputs"
        subject = "unprojected scores reach"
    else:
        index = coalesce(quality.smallest(target), len(quality.projection) - 1)
        p = int(quality.n_features[index])
        limit = quality.projection[index]
        reached = quality.correlation["information"].mean(1)[index]
        choice = f"{p:,} features, at most {limit:,} a tensor, for {target:g} of information"
        subject = f"the most features tried, {p:,}, reach"
        settings = replace(settings, projection=limit, outputs=form.outputs)
    missed = f"a rank correlation of {target:g} with exact information was asked for; {subject} "
    if reached >= target:
        warnings = ()
    else:
        warnings = (f"{missed}{reached:.3f}.",)
    facts = {CHOICE: choice, REACHED: _format_correlations(quality, index)}
    return ChosenProjection(settings, facts, warnings, quality)


def _format_correlations(quality: ProjectionQuality, index: int | None) -> str:
    """Return each score's correlation with exact scores as text; index: which projection."""
    parts = []
    for score in SCORES:
        if index is None:
            value = f"{quality.unprojected[score]:.3f}"
        else:
            low = quality.low[score][index]
            high = quality.high[score][index]
            value = f"{quality.correlation[score].mean(1)[index]:.3f} [{low:.3f}, {high:.3f}]"
        parts.append(f"{score.replace('_', ' ')} {value}")
    return f"{', '.join(parts)}; on {quality.n_samples} samples"


def projection_step(
    model: nn.Module, train: SampleSet, val: SampleSet | None, form: Form
) -> PlanStep:
    """Return the plan's step of choosing a projection by exact scores of some samples."""
    n = min(N_SAMPLES, len(train), MOST_ROWS // form.n_outputs)
    pilot = train.subset(np.arange(n))
    pilot_val = None
    if val is not None:
        pilot_val = val.subset(np.arange(min(n, len(val))))
    m = len(pilot_val or ())
    exact = plan_collection(model, pilot, pilot_val, outputs="joint", projection=None)
    sizes = Sizes(form=exact, train=n, val=m, classes=train.n_classes)
    parts = [*removal_steps(sizes), *judge_steps(sizes), *influence_steps(sizes)]
    collected = collection_step(model, pilot, n + m, exact)
    is_exact = form.projection is None
    if is_exact and not form.landmarks:
        draws = 0
    else:
        draws = DRAWS * len(N_FEATURES)
    # Rows per output are decomposed anew each time; one row per sample costs its collection.
    n_scored = 1 + draws if form.outputs == "joint" else 1
    scored = add_work(*(step.work for step in parts), times=n_scored)
    collections = add_work(collected.work, times=1 + draws)
    return PlanStep(
        "compare projections",
        f"{n} samples scored exactly and projected; the form may then differ from this plan's",
        max(step.bytes for step in (*parts, collected)), add_work(scored, collections),
        pilot=(1 + draws) * collected.pilot, counted=(1 + draws) * collected.counted,
    )  # fmt: skip
