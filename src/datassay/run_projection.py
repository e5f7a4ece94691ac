"""The projection that the main job takes where a rank correlation is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torch import nn

from datassay.collect.collect import plan_collection
from datassay.data.samples import SampleSet
from datassay.progress import Progress
from datassay.run_settings import RunSettings
from datassay.score.projection_quality import (
    N_FEATURES,
    SCORES,
    ProjectionQuality,
    projection_quality,
)

CHOICE, CURVE = PROJECTION_FACTS = ("Projection", "Rank correlation with exact scores")


@dataclass(frozen=True, slots=True)
class ChosenProjection:
    """What to run with, and why.

    Attributes:
        settings: of the run, its projection chosen.
        facts: for the page and the terminal; empty where nothing was asked for.
        warnings: that the target was not reached, or none.
    """

    settings: RunSettings
    facts: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def chosen_projection(
    model: nn.Module,
    train: SampleSet,
    val: SampleSet,
    settings: RunSettings,
    progress: Progress,
) -> ChosenProjection:
    """The smallest projection that reaches settings.rank_correlation, by measuring it.

    Args:
        model: to linearise.
        train: the training samples.
        val: the validation samples.
        settings: of the run.
        progress: called with (step, done, in all).

    Returns:
        The settings, unchanged where no correlation was asked for or nothing would be projected.

    Raises:
        DatassayError: as `projection_quality` raises.
    """
    target = settings.rank_correlation
    if target is None:
        return ChosenProjection(settings)
    form = plan_collection(model, train, val, **settings.collection_settings)
    quality = projection_quality(
        model,
        train,
        val,
        n_features=() if form.projection is None else N_FEATURES,
        outputs=form.outputs,
        memory=settings.memory,
        seed=settings.seed,
        progress=progress,
        **settings.dynamics_settings,
    )
    if form.projection is None:
        facts = {CHOICE: f"none, {form.outputs} outputs", CURVE: _curve(quality)}
        missed = _missed(target, quality.unprojected["information"], "unprojected scores reach")
        return ChosenProjection(settings, facts, missed)
    place = quality.smallest(target)
    taken = len(quality.projection) - 1 if place is None else place
    p, reached = int(quality.n_features[taken]), quality.correlation["information"].mean(1)[taken]
    missed = _missed(target, reached, f"the most features tried, {p:,}, reach")
    limit = quality.projection[taken]
    facts = {
        CHOICE: f"{p:,} features, at most {limit:,} a tensor, for {target:g} of information",
        CURVE: _curve(quality),
    }
    chosen = replace(settings, projection=limit, outputs=form.outputs)
    return ChosenProjection(chosen, facts, missed)


def _missed(target: float, reached: float, what: str) -> tuple[str, ...]:
    if reached >= target:
        return ()
    return (
        f"a rank correlation of {target:g} with exact information was asked for; {what} "
        f"{reached:.3f}.",
    )


def _curve(quality: ProjectionQuality) -> str:
    """Every correlation that was measured, as one sentence a score."""
    parts = []
    for score in SCORES:
        means = quality.correlation[score].mean(1)
        rows = [
            f"{mean:.3f} [{low:.3f}, {high:.3f}] from {p:,}"
            for p, mean, low, high in zip(
                quality.n_features, means, quality.low[score], quality.high[score], strict=True
            )
        ]
        name = score.replace("_", " ")
        parts.append(
            f"{name} {'; '.join([*rows, f'{quality.unprojected[score]:.3f} unprojected'])}"
        )
    return f"{'. '.join(parts)}. On {quality.n_samples} samples; of more, less may hold."
