"""The job of `datassay complexity DATA`: measure a learning curve, extrapolate it, gather all."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from datassay.commands.command import closing_facts
from datassay.commands.complexity.curve.findings import CurveFindings
from datassay.complexity.accuracy_curve import AccuracyCurve, accuracy_curve
from datassay.complexity.learners import named_learner
from datassay.complexity.needed_samples import Extrapolation, extrapolate, forecast
from datassay.complexity.settings import Curve
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.progress import Progress, silent
from datassay.report.wording import count, number

EXTRAPOLATE = "fit laws to resampled curves"


@dataclass(frozen=True, slots=True)
class CurveSettings:
    """What the job can be told; every default is what `datassay complexity DATA` does.

    Attributes:
        model: as for `named_learner`.
        accuracy: scores wanted; none: the one of half the present error.
        sizes: numbers of training samples; None: eight, from a 64th of the samples to all.
        repeats: fits a size.
        level: of the intervals.
        store: folder that keeps finished sizes, or None.
        seed: of subsets, starting weights, batches and draws.
        command: what to print on the page as the command to repeat this.
    """

    model: str = "mlp"
    accuracy: tuple[float, ...] = ()
    sizes: tuple[int, ...] | None = None
    repeats: int = 10
    level: float = Curve.level
    store: Path | None = None
    seed: int = 0
    command: str = ""


def run_curve(
    train: SampleSet, val: SampleSet, settings: CurveSettings, progress: Progress = silent
) -> CurveFindings:
    """Everything `datassay complexity DATA` computes, without writing anything.

    Args:
        train: the training samples.
        val: the validation samples; no fit sees them.
        settings: what to run.
        progress: called with (step, units done, units in all).

    Returns:
        The findings, ready for `write_curve`.

    Raises:
        DatassayError: bad samples or model; one sentence says which.
        SettingError: a setting is outside its rule.
    """
    started = time.perf_counter()
    _check(settings)
    learner = named_learner(settings.model, train, repeats=settings.repeats, seed=settings.seed)
    curve = accuracy_curve(
        learner, train, val,
        sizes=settings.sizes, seed=settings.seed, store=settings.store, progress=progress,
    )  # fmt: skip
    how = {"level": settings.level, "seed": settings.seed}
    progress(EXTRAPOLATE, 0, 3)
    found = extrapolate(curve, **how)
    progress(EXTRAPOLATE, 1, 3)
    blind = extrapolate(curve, resample_validation=False, **how)
    progress(EXTRAPOLATE, 2, 3)
    checked = forecast(curve, **how)
    progress(EXTRAPOLATE, 3, 3)
    wanted = settings.accuracy or _default_scores(curve)
    needed = tuple(found.needed(score) for score in sorted(set(wanted)))
    findings = CurveFindings(train, val, settings.model, found, blind, needed, checked)
    facts = _facts(findings, settings) | closing_facts(started, settings.command)
    return replace(findings, facts=facts, warnings=_warnings(found))


def _check(settings: CurveSettings) -> None:
    for score in settings.accuracy:
        if not 0 < score < 1:
            raise SettingError(
                f"accuracy must lie between 0 and 1, as 0.95 for 95 %; got {score:g}."
            )
    if settings.repeats < 2:
        raise SettingError(
            f"repeats must be at least 2, so that the noise is known; got {settings.repeats}."
        )


def _default_scores(curve: AccuracyCurve) -> tuple[float, ...]:
    """Half of the present error, in two leading digits; all right already: one error in 1000."""
    error = float(curve.errors[-1].mean()) / 2
    if not 0 < error < 1:
        return (0.999,) if error <= 0 else (0.5,)
    digits = 1 - math.floor(math.log10(error))
    return (round(1 - error, digits),)


def _facts(findings: CurveFindings, settings: CurveSettings) -> dict[str, str]:
    train, val, curve = findings.samples, findings.validation, findings.found.curve
    part = "split off" if val.split_off else "given"
    sizes = ", ".join(f"{n:,}" for n in curve.sizes)
    return {
        "Data": f"{train.name}: {len(train):,} training, {len(val):,} validation samples ({part})",
        "Model": settings.model,
        "Sizes": f"{sizes}, {count(curve.errors.shape[1], 'fit')} each",
        "Score now": f"{findings.metric} {number(findings.now)} with {findings.n:,} samples",
        "Wanted": ", ".join(f"{n.score:g}" for n in findings.needed),
        "Seed": str(settings.seed),
        "Version": version("datassay"),
    }


def _warnings(found: Extrapolation) -> tuple[str, ...]:
    curve, notes = found.curve, []
    mean = curve.score.mean(1)
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
