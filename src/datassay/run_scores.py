"""What the main job computes of one linearisation, and what it leaves out where n is large.

Retrained networks cost the same for any number of samples, scores grow with it, and effects on
single predictions grow with it times the number of queries.
"""

from __future__ import annotations

from datassay.collect.form import Form
from datassay.collect.linearization import Linearization
from datassay.errors import DataError
from datassay.progress import Progress
from datassay.run_settings import RunSettings
from datassay.score.attribution import RemovalScores, removal_scores
from datassay.score.label_issues import LabelIssues
from datassay.score.leave_one_out import leave_one_out
from datassay.score.linear_influence import SampleInfluence, linear_influence

# Beyond so many multiplications (about 5 seconds) "auto" leaves the effects on single predictions
# out: they grow with samples times queries.
MOST_EFFECTS_WORK = 5e11
LEFT_OUT = (
    "effects on single predictions, which take samples times validation samples; "
    "--attribution output computes them"
)


def attribution_of(
    settings: RunSettings, form: Form, n: int, m: int, is_classification: bool
) -> str:
    """What the setting "auto" stands for; other settings stay.

    Args:
        settings: of the run.
        form: of the linearisation.
        n: training samples.
        m: validation samples.
        is_classification: whether the targets are classes.

    Returns:
        "output", of several targets "loss", or "none" where n m effects would take minutes.
    """
    if settings.attribution != "auto":
        return settings.attribution
    if 2.0 * n * m * form.n_outputs * form.eigenproblem > MOST_EFFECTS_WORK:
        return "none"
    return "output" if is_classification or form.n_outputs == 1 else "loss"


def removals_of(lin: Linearization, settings: RunSettings, progress: Progress) -> RemovalScores:
    """One pass over all removals, with or without the effects on each validation sample.

    Args:
        lin: the linearisation.
        settings: of the run; its attribution as `attribution_of` gives it.
        progress: called with (step, samples done, samples in all).

    Returns:
        The leave-one-outs and, where asked for, the effects.
    """
    if settings.attribution == "none":
        loo = leave_one_out(lin, progress=progress, **settings.dynamics_settings)
        return RemovalScores(loo, None, None)
    return removal_scores(
        lin,
        of=settings.attribution,
        top=settings.top,
        progress=progress,
        **settings.dynamics_settings,
    )


def influence_of(
    lin: Linearization, issues: LabelIssues, seed: int, progress: Progress
) -> SampleInfluence | None:
    """Influence at the ridge fit that judged the labels.

    Args:
        lin: the linearisation.
        issues: of its labels.
        seed: of the partners drawn.
        progress: called with (step, samples done, samples in all).

    Returns:
        Moments of each sample's influence; None where they say nothing.
    """
    try:
        return linear_influence(lin, ridge=issues.ridge, seed=seed, progress=progress)
    except DataError:  # too few samples, or fitted without error: nothing depends on it
        return None


def influence_facts(influence: SampleInfluence | None) -> dict[str, str]:
    """Mean and variance over all pairs.

    Args:
        influence: of the samples, or None.

    Returns:
        Facts for the page.
    """
    if influence is None:
        return {}
    spread = f" ± {influence.total_variance_error:.1g}" if influence.total_variance_error else ""
    return {
        "Influence": f"mean {influence.total_mean:.3g}, variance {influence.total_variance:.3g}"
        f"{spread} over pairs of samples, {influence.n_partners:,} partners a sample"
    }
