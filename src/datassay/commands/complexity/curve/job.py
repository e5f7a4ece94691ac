"""The job of `datassay complexity DATA`: measure a learning curve, extrapolate it, gather all."""

from __future__ import annotations

import math
import time
from dataclasses import replace

from datassay.commands.complexity.curve.findings import CurveFindings
from datassay.commands.complexity.settings import CurveSettings
from datassay.commands.facts import closing_facts, data_facts, model_facts
from datassay.complexity.accuracy_curve import AccuracyCurve, accuracy_curve
from datassay.complexity.needed_samples import extrapolate, forecast
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.models.names import full_name
from datassay.progress import Progress, silent
from datassay.report.wording import count, number
from datassay.train.learner import named_learner

MOST_REPEATS = 10_000
EXTRAPOLATE = "fit laws to resampled curves"


def run(
    train: SampleSet, val: SampleSet, settings: CurveSettings, progress: Progress = silent
) -> CurveFindings:
    """Everything `datassay complexity DATA` computes, without writing anything."""
    started = time.perf_counter()
    check_settings(settings)
    settings = replace(settings, model=full_name(settings.model, train))
    learner = named_learner(settings.model, train, repeats=settings.repeats, seed=settings.seed)
    curve = accuracy_curve(
        learner, train, val,
        sizes=settings.sizes, seed=settings.seed, store=settings.store, progress=progress,
    )  # fmt: skip
    progress(EXTRAPOLATE, 0, 3)
    extrapolation = extrapolate(curve, seed=settings.seed)
    progress(EXTRAPOLATE, 1, 3)
    blind = extrapolate(curve, resample_validation=False, seed=settings.seed)
    progress(EXTRAPOLATE, 2, 3)
    checked = forecast(curve, seed=settings.seed)
    progress(EXTRAPOLATE, 3, 3)
    wanted = settings.accuracy or _default_scores(curve)
    needed = tuple(extrapolation.needed(score) for score in sorted(set(wanted)))
    findings = CurveFindings(train, val, settings.model, extrapolation, blind, needed, checked)
    facts = _facts(findings, settings) | closing_facts(started, settings.seed, settings.command)
    return replace(findings, facts=facts, warnings=_warnings(curve))


def check_settings(settings: CurveSettings, *, only_plan: bool = False) -> None:
    """Refuse, before any work is done, a setting outside its rule."""
    for score in settings.accuracy:
        if not 0 < score < 1:
            raise SettingError(
                f"accuracy must lie between 0 and 1, as 0.95 for 95 %; got {score:g}."
            )
    if settings.repeats < 2:
        raise SettingError(
            f"repeats must be at least 2, so that the noise is known; got {settings.repeats}."
        )
    if settings.repeats > MOST_REPEATS:
        raise SettingError(
            f"repeats must be at most {MOST_REPEATS:,} fits a size; got {settings.repeats:,}."
        )


def _default_scores(curve: AccuracyCurve) -> tuple[float, ...]:
    """Half of the present error, in two leading digits; all right already: one error in 1000."""
    error = float(curve.errors[-1].mean()) / 2
    if not 0 < error < 1:
        return (0.999,) if error <= 0 else (0.5,)
    digits = 1 - math.floor(math.log10(error))
    return (round(1 - error, digits),)


def _facts(findings: CurveFindings, settings: CurveSettings) -> dict[str, str]:
    train, val, curve = findings.samples, findings.validation, findings.extrapolation.curve
    sizes = ", ".join(f"{n:,}" for n in curve.sizes)
    return {
        **data_facts(train, val),
        **model_facts(settings.model, settings.model),
        "Sizes": f"{sizes}, {count(findings.repeats, 'fit')} each",
        "Score now": f"{findings.metric} {number(findings.now)} with {findings.n:,} samples",
        "Wanted": ", ".join(f"{n.score:g}" for n in findings.needed),
    }


def _warnings(curve: AccuracyCurve) -> tuple[str, ...]:
    notes, mean = [], curve.score.mean(1)
    if 1 - mean[-1] > 0.9 * curve.start:
        notes.append(
            "the model is hardly better than the best constant guess, so there is no curve to "
            "follow yet: more data, another model or a longer training come first."
        )
    elif mean[-1] < mean[:-1].max() - 0.01:
        notes.append(
            "the score falls with more samples somewhere on the curve, which no law here can do; "
            "read the figures as a rough guide."
        )
    return tuple(notes)
