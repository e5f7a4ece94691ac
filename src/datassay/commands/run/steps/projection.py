"""The projection of a run where a rank correlation is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torch import nn

from datassay.collect.collection import plan_collection
from datassay.collect.form import Form
from datassay.commands.run.settings import RunSettings
from datassay.data.samples import SampleSet
from datassay.progress import Progress
from datassay.score.compare.projection_quality import (
    N_FEATURES,
    SCORES,
    ProjectionQuality,
    projection_quality,
)

CHOICE, REACHED, APPROXIMATED = PROJECTION_FACTS = (
    "Projection",
    "Rank correlation with exact scores",
    "Approximated",
)


@dataclass(frozen=True, slots=True)
class ChosenProjection:
    """What to run with, and why.

    Attributes:
        settings: of the run, its projection chosen.
        facts: for the page and the terminal; empty where nothing was asked for.
        warnings: that the target was not reached, or none.
        quality: what was measured; None where nothing was asked for.
    """

    settings: RunSettings
    facts: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    quality: ProjectionQuality | None = None


def chosen_projection(
    model: nn.Module,
    train: SampleSet,
    val: SampleSet | None,
    settings: RunSettings,
    progress: Progress,
) -> ChosenProjection:
    """The smallest projection that reaches settings.rank_correlation, by measuring it.

    Returns:
        The settings, unchanged where no correlation was asked for or nothing would be projected.

    Raises:
        DatassayError: as `projection_quality` raises.
    """
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
        facts = {CHOICE: f"none, {form.outputs} outputs", REACHED: _correlations(quality, None)}
        missed = _missed(target, quality.unprojected["information"], "unprojected scores reach")
        return ChosenProjection(settings, facts, missed, quality)
    place = quality.smallest(target)
    taken = len(quality.projection) - 1 if place is None else place
    p, reached = int(quality.n_features[taken]), quality.correlation["information"].mean(1)[taken]
    missed = _missed(target, reached, f"the most features tried, {p:,}, reach")
    limit = quality.projection[taken]
    facts = {
        CHOICE: f"{p:,} features, at most {limit:,} a tensor, for {target:g} of information",
        REACHED: _correlations(quality, taken),
    }
    chosen = replace(settings, projection=limit, outputs=form.outputs)
    return ChosenProjection(chosen, facts, missed, quality)


def approximation_facts(form: Form) -> dict[str, str]:
    """What was collected instead of the exact form because that takes long, and how to get it."""
    if not form.instead_of:
        return {}
    return {APPROXIMATED: f"{form.summary}, instead of {form.instead_of}"}


def _missed(target: float, reached: float, what: str) -> tuple[str, ...]:
    if reached >= target:
        return ()
    return (
        f"a rank correlation of {target:g} with exact information was asked for; {what} "
        f"{reached:.3f}.",
    )


def _correlations(quality: ProjectionQuality, place: int | None) -> str:
    """Every score's correlation at one of the projections, or without any."""
    parts = []
    for score in SCORES:
        if place is None:
            value = f"{quality.unprojected[score]:.3f}"
        else:
            low, high = quality.low[score][place], quality.high[score][place]
            value = f"{quality.correlation[score].mean(1)[place]:.3f} [{low:.3f}, {high:.3f}]"
        parts.append(f"{score.replace('_', ' ')} {value}")
    return f"{', '.join(parts)}; on {quality.n_samples} samples"
