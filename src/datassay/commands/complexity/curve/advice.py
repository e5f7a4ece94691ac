"""What a learning curve says to do next: each sentence follows from figures that the page shows."""

from __future__ import annotations

import math

import numpy as np

from datassay.commands.complexity.curve.findings import CHECKED, CurveFindings
from datassay.complexity.needed_samples import NeededSamples
from datassay.report.advice import Advice, most_urgent_first
from datassay.report.wording import count, number, percent

# From this share of the interval's width on, the validation samples are what limits it.
MOSTLY_VALIDATION = 0.5
# Below this share of the error that twice the samples remove they are hardly worth it.
SMALL_GAIN = 0.1


def advice(findings: CurveFindings) -> tuple[Advice, ...]:
    """What to do next, most urgent first."""
    advices = [_needed(findings, one) for one in findings.needed]
    advices += [_twice(findings), *_forecast(findings), *_validation(findings)]
    return most_urgent_first(advices)


def samples(n: float) -> str:
    """A number of samples that is no more exact than it can be: "2,300", for infinity "never"."""
    if not math.isfinite(n):
        return "never"
    if n >= 1e9:
        return "over a billion"
    digits = max(0, math.floor(math.log10(max(n, 1))) - 1)
    return f"{max(1, round(n / 10**digits)) * 10**digits:,}"


def span(one: NeededSamples) -> str:
    """The interval in words: "1,500 to 8,000", or without an upper end "at least 1,500"."""
    if not math.isfinite(one.low):
        return "no number of samples"
    if not math.isfinite(one.high):
        return f"at least {samples(one.low)}"
    return f"{samples(one.low)} to {samples(one.high)}"


def _needed(findings: CurveFindings, one: NeededSamples) -> Advice:
    wanted = f"{findings.metric[0].upper()}{findings.metric[1:]} {one.score:g}"
    level = f"{findings.interval}: {span(one)}"
    never = 1 - one.reached_by
    doubt = f" In {percent(round(never, 3))} of the draws no number of samples is enough."
    if not math.isfinite(one.median):
        ceiling = findings.extrapolation.ceiling
        sure = one.reached_by < 1 - one.level
        may = "will hardly be" if sure else "may never be"
        return Advice(
            "needed", "act" if sure else "look", f"{wanted} {may} reached by more samples alone",
            f"In {percent(round(never, 3))} of the draws the curve levels off below it: with any "
            f"number of samples {findings.model} is expected to reach {number(ceiling[1])} "
            f"({number(ceiling[0])} to {number(ceiling[2])}). Change the model, the features or "
            "the labels, or ask for less.",
        )  # fmt: skip
    if one.median <= findings.n:
        sure = one.high <= findings.n
        return Advice(
            "needed", "fine" if sure else "look",
            f"{wanted} takes about {samples(one.median)} samples: there are {findings.n:,}",
            f"{level}. The fits to all {findings.n:,} score {number(findings.now)} here"
            + ("." if sure else ", but on other validation samples it can be less.")
            + doubt * (never > 0),
        )  # fmt: skip
    sentence = f"{level}." + doubt * (never > 0) + _times(findings, one)
    if vague(findings, one):
        headline = f"{wanted} takes {span(one)} samples, and may be out of reach"
        return Advice("needed", "look", headline, sentence)
    more = samples(one.median - findings.n)
    headline = f"{wanted} needs about {samples(one.median)} samples: {more} more"
    return Advice("needed", "act" if math.isfinite(one.high) else "look", headline, sentence)


def vague(findings: CurveFindings, one: NeededSamples) -> bool:
    """No upper end, and a median beyond what intervals were checked to: it says too much."""
    return math.isinf(one.high) and one.median > CHECKED * findings.n


def _times(findings: CurveFindings, one: NeededSamples) -> str:
    ratio = one.median / findings.n
    if ratio <= CHECKED:
        return f" The middle is {number(ratio)} times what there is."
    return (
        f" The middle, {samples(one.median)}, is {number(ratio)} times what there is; such "
        f"intervals were checked up to {CHECKED} times, beyond they are a guess."
    )


def _twice(findings: CurveFindings) -> Advice:
    n = np.array([1.0, 2.0]) * findings.n
    scores = findings.extrapolation.draws.errors(n)
    gain = np.quantile(scores[:, 0] - scores[:, 1], [0.05, 0.5, 0.95])
    unit = "points of accuracy" if findings.metric == "accuracy" else "of R²"
    scale = 100 if findings.metric == "accuracy" else 1
    low, middle, high = (f"{scale * g:.{1 if scale == 100 else 3}f}" for g in gain)
    small = gain[1] < SMALL_GAIN * np.median(scores[:, 0])
    return Advice(
        "worth", "look" if small else "fine",
        f"Twice the samples bring about {middle} {unit}",
        f"{low} to {high} in 90 % of the draws, at {2 * findings.n:,} samples."
        + (" Where labels are dear, look at the errors first: datassay run shows which samples "
           "are mislabelled or redundant." if small else ""),
    )  # fmt: skip


def _forecast(findings: CurveFindings) -> list[Advice]:
    forecast = findings.forecast
    if forecast is None:
        return []
    sentence = (
        f"From at most {forecast.from_n:,} samples, {number(forecast.median)} "
        f"({number(forecast.low)} to {number(forecast.high)}) was to be expected at "
        f"{forecast.n:,}; measured {number(forecast.measured)}."
    )
    if forecast.holds:
        return [Advice("does it hold", "fine", "The smaller sizes predict the largest", sentence)]
    side = "better" if forecast.measured > forecast.high else "worse"
    return [
        Advice(
            "does it hold", "look", f"The largest size does {side} than the smaller ones predict",
            f"{sentence} The curve bends otherwise than the laws here: trust the extrapolation "
            "less, and measure again when there are more samples.",
        )
    ]  # fmt: skip


def _validation(findings: CurveFindings) -> list[Advice]:
    share = findings.validation_share
    if share < MOSTLY_VALIDATION:
        return []
    return [
        Advice(
            "how sure", "look", "The validation samples limit the answer",
            f"{percent(round(share, 2))} of the interval's width at {findings.n:,} samples is "
            f"theirs: {count(len(findings.validation), 'sample')} decide the score. More of them "
            "(--val-fraction, or a validation part of its own) would narrow it most.",
        )
    ]  # fmt: skip
