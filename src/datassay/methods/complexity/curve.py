"""`datassay complexity DATA`: measure a learning curve, extrapolate it, and say where it leads.

`text/curve.md.j2` says what the page says.
"""

import math
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from datassay.commands.facts import closing_facts, data_facts, model_facts
from datassay.commands.frame import SampleFindings, compose_page, table
from datassay.data.samples import SampleSet
from datassay.methods.complexity.accuracy_curve import AccuracyCurve, accuracy_curve
from datassay.methods.complexity.command import CurveSettings
from datassay.methods.complexity.needed_samples import (
    Extrapolation,
    Forecast,
    NeededSamples,
    extrapolate,
    forecast,
)
from datassay.models.names import HEAD, full_name
from datassay.models.networks import NETWORKS
from datassay.progress import Progress, silent
from datassay.report.page import Page, Table
from datassay.report.plots import chart, level, line, marks
from datassay.report.style import BLUE, GREY, INK, VERMILION
from datassay.report.tables import standard_json
from datassay.report.wording import count, number, share
from datassay.results import result
from datassay.train.learner import named_learner

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

TEMPLATE = Path(__file__).with_name("curve.md.j2")
FILES = {"fits.parquet": "the score of every fit", "summary.json": "the figures above"}
# As far as the intervals were checked against more data (bench/uses/learning_curves.py).
CHECKED = 8
AHEAD = (1, 2, 4, 8)
# How far the figures reach at most, in times the samples there are.
FARTHEST = 64
POINTS = 120
# Below this share of the error that twice the samples remove they are hardly worth it.
SMALL_GAIN = 0.1


@result
class CurveFindings(SampleFindings):
    """A learning curve and where it leads."""

    model: str  # as the user named it
    extrapolation: Extrapolation
    blind: Extrapolation  # the same without resampling the validation samples
    needed: tuple[NeededSamples, ...]  # for each score asked about, ascending
    # The largest size predicted from the smaller ones; None where there are too few.
    forecast: Forecast | None
    is_default: bool = False  # whether the score was not asked for: half the present error

    @property
    def n(self) -> int:
        """The largest size that was measured."""
        return int(self.extrapolation.curve.sizes[-1])

    @property
    def repeats(self) -> int:
        """The number of fits of each size."""
        return self.extrapolation.curve.errors.shape[1]

    @property
    def interval(self) -> str:
        """The name of the intervals: "90 % interval"."""
        return f"{100 * self.extrapolation.level:.0f} % interval"

    @property
    def now(self) -> float:
        """The mean score of the fits to the largest size."""
        return float(self.extrapolation.curve.score[-1].mean())

    @property
    def validation_share(self) -> float:
        """The share of the interval's width at the largest size that validation samples cause."""
        n = np.array([float(self.n)])
        width, blind_width = (
            np.ptp(laws.score(n)[[0, 2], 0]) for laws in (self.extrapolation, self.blind)
        )
        if width > 0:
            return float(1 - blind_width / width)
        return 0.0


def run(
    train: SampleSet, val: SampleSet, settings: CurveSettings, progress: Progress = silent
) -> CurveFindings:
    """Compute everything that `datassay complexity DATA` shows, without writing anything."""
    started = time.perf_counter()
    settings.refuse()
    settings = replace(settings, model=full_name(settings.model, train))
    learner = named_learner(settings.model, train, repeats=settings.repeats, seed=settings.seed)
    curve = accuracy_curve(
        learner, train, val,
        sizes=settings.sizes, seed=settings.seed, store=settings.store, progress=progress,
    )  # fmt: skip
    step = "fit laws to resampled curves"
    progress(step, 0, 3)
    extrapolation = extrapolate(curve, seed=settings.seed)
    progress(step, 1, 3)
    blind = extrapolate(curve, resample_validation=False, seed=settings.seed)
    progress(step, 2, 3)
    prediction = forecast(curve, seed=settings.seed)
    progress(step, 3, 3)
    targets = settings.accuracy or _choose_scores(curve)
    needed = tuple(extrapolation.needed(score) for score in sorted(set(targets)))
    findings = CurveFindings(
        train, val, settings.model, extrapolation, blind, needed, prediction, not settings.accuracy
    )
    sizes = ", ".join(f"{n:,}" for n in curve.sizes)
    facts = {
        **data_facts(train, val),
        **model_facts(settings.model, settings.model),
        "Sizes": f"{sizes}, {count(findings.repeats, 'fit')} each",
        "Score now": f"{findings.metric} {number(findings.now)} with {findings.n:,} samples",
        "Wanted": ", ".join(f"{n.score:g}" for n in needed),
        **closing_facts(started, settings.seed, settings.command),
    }
    return replace(findings, facts=facts)


def _choose_scores(curve: AccuracyCurve) -> tuple[float, ...]:
    """Return (score to ask samples for,): half the present error; 0.999 without error."""
    half_error = float(curve.errors[-1].mean()) / 2
    if half_error <= 0:
        return (0.999,)
    if not half_error < 1:  # an R² below −1, or NaN
        return (0.5,)
    digits = 1 - math.floor(math.log10(half_error))
    return (round(1 - half_error, digits),)


def page(findings: CurveFindings) -> Page:
    """Return the page of a learning curve."""
    numbers = {
        "samples": samples,
        "span": span,
        # No upper end, and a median beyond what intervals were checked to: it says too much.
        "vague": lambda n: math.isinf(n.high) and n.median > CHECKED * findings.n,
        "twice": _forecast_doubling(findings),
        "is_default": findings.is_default,
        "networks": NETWORKS,
        "other_model": _suggest_model(findings),
        "checked": CHECKED,
    }
    blocks = {
        "score": _plot_scores(findings),
        "needed": _tabulate_needed(findings),
        "expected": _tabulate_expected(findings),
    }
    return compose_page(TEMPLATE, findings, blocks, numbers, FILES)


def _suggest_model(findings: CurveFindings) -> str:
    """Return a scikit-learn model to compare a table's network with; "" for other models."""
    if findings.model != HEAD or findings.samples.kind != "row" or findings.samples.y.ndim > 1:
        return ""
    kind = "Classifier" if findings.samples.is_classification else "Regressor"
    return f"sklearn.ensemble:RandomForest{kind}"


def samples(n: float) -> str:
    """Return a number of samples in words: "2,300", or "never" for infinity."""
    if not math.isfinite(n):
        return "never"
    if n >= 1e9:
        return "over a billion"
    digits = max(0, math.floor(math.log10(max(n, 1))) - 1)
    return f"{max(1, round(n / 10**digits)) * 10**digits:,}"


def span(needed: NeededSamples) -> str:
    """Return the interval in words: "1,500 to 8,000", or "at least 1,500"."""
    if not math.isfinite(needed.low):
        return "no number of samples"
    if not math.isfinite(needed.high):
        return f"at least {samples(needed.low)}"
    return f"{samples(needed.low)} to {samples(needed.high)}"


def _forecast_doubling(findings: CurveFindings) -> dict[str, Any]:
    """Return the expected gain of doubling the samples: quantiles, unit, whether small."""
    n = np.array([1.0, 2.0]) * findings.n
    errors = findings.extrapolation.draws.errors(n)
    gain = np.quantile(errors[:, 0] - errors[:, 1], [0.05, 0.5, 0.95])
    in_points = findings.metric == "accuracy"
    texts = [f"{100 * g:.1f}" if in_points else f"{g:.3f}" for g in gain]
    return dict(zip(("low", "middle", "high"), texts, strict=True)) | {
        "unit": "points of accuracy" if in_points else "of R²",
        "is_small": gain[1] < SMALL_GAIN * np.median(errors[:, 0]),
    }


def _tabulate_needed(findings: CurveFindings) -> Table:
    """Return a table: samples needed for each wanted score, with interval."""
    rows = []
    for n in findings.needed:
        median = "not in most curves"
        if math.isfinite(n.median):
            median = samples(n.median)
        rows.append((f"{n.score:g}", median, span(n), f"{share(1 - n.reached_by)} of curves"))
    columns = (findings.metric, "samples needed", findings.interval, "never reached in")
    return table("Samples needed", columns, rows, in_terminal=True)


def _tabulate_expected(findings: CurveFindings) -> Table:
    """Return a table: scores expected of 1 to 8 times the samples, and of infinitely many."""
    n = np.array(AHEAD, np.float64) * findings.n
    scores = [*findings.extrapolation.score(n).T, findings.extrapolation.ceiling]
    names = [*(f"{x:,.0f}" for x in n), "as many as you like"]
    rows = [
        (name, number(median), f"{number(low)} to {number(high)}")
        for name, (low, median, high) in zip(names, scores, strict=True)
    ]
    columns = ("training samples", f"{findings.metric} expected", findings.interval)
    return table("Expected scores", columns, rows, in_terminal=True)


def _plot_scores(findings: CurveFindings) -> "Figure":
    """Return a chart: each fit's score, the fitted curve with its interval, scores wanted."""
    curve = findings.extrapolation.curve
    metric = findings.metric
    figure, n = _start_chart(findings, metric)
    low, median, high = findings.extrapolation.score(n)
    _fill(figure, n, low, high, findings.interval)
    hover = f"%{{x:,.0f}} samples: {metric} %{{y:.3f}}<extra></extra>"
    line(figure, n, median, "law, median", BLUE, hover, width=2.5)
    fit_sizes = np.repeat(curve.sizes, curve.score.shape[1])
    marks(figure, fit_sizes, curve.score.ravel(), "one fit", GREY, size=5, opacity=0.5)
    hover = hover.replace(",.0f", ",")
    means = curve.score.mean(1)
    marks(figure, curve.sizes, means, "mean of the fits", INK, hover, size=8, symbol="diamond")
    for i, needed in enumerate(findings.needed):
        ends = [curve.sizes[0], n[-1]]
        height = [needed.score] * 2
        style = {"width": 1.5, "dash": "dash", "showlegend": i == 0}
        line(figure, ends, height, "wanted", VERMILION, **style)
        _mark_needed(figure, needed, float(n[-1]))
    floor = float(min(low[0], curve.score.min()))
    top = float(max(high.max(), curve.score.max(), *(x.score for x in findings.needed)))
    room = 0.04 * (top - floor)
    figure.update_yaxes(range=[max(floor - room, -0.5), min(top + room, 1.005)])
    return figure


def _start_chart(findings: CurveFindings, y_title: str) -> "tuple[Figure, np.ndarray]":
    """Return an empty chart over sample sizes, and the sizes at which to draw a curve."""
    # As far as the wanted scores need, 8 to 64 times the samples there are.
    needed = [n for score in findings.needed for n in (score.median, score.high) if np.isfinite(n)]
    least_reach = AHEAD[-1] * findings.n
    reach = float(np.clip(1.3 * max(needed, default=0), least_reach, FARTHEST * findings.n))
    n = np.geomspace(findings.extrapolation.covers, reach, POINTS)
    ends = np.array([0.9 * float(findings.extrapolation.curve.sizes[0]), float(n[-1])])
    figure = chart("training samples (log scale)", y_title, log_x=ends, height=420)
    figure.update_xaxes(range=np.log10(ends).tolist())
    level(figure, x=findings.n, colour=GREY, dash="dot", width=1)
    return figure, n


def _fill(figure: "Figure", n: np.ndarray, low: np.ndarray, high: np.ndarray, name: str) -> None:
    """Fill the area between two curves over n."""
    x = np.r_[n, n[::-1]]
    y = np.r_[low, high[::-1]]
    area = {"fill": "toself", "fillcolor": "rgba(0,114,178,.16)", "width": 0}
    line(figure, x, y, name, BLUE, **area)


def _mark_needed(figure: "Figure", needed: NeededSamples, end: float) -> None:
    """Draw the interval of the number needed, as a bar on the line of the score wanted."""
    if not np.isfinite(needed.low) or needed.low >= end:
        return
    ends: list[float] = [needed.low, min(needed.high, end)]
    hidden: Any = {"showlegend": False}
    line(figure, ends, [needed.score] * 2, "", VERMILION, width=5, opacity=0.55, **hidden)
    if needed.median < end:
        style = {"color": VERMILION, "size": 11, "line": {"color": "white", "width": 1.5}}
        hover = "%{y}: %{x:,.0f} samples"
        marks(figure, [needed.median], [needed.score], "", VERMILION, hover, marker=style, **hidden)


def files(findings: CurveFindings, page: Page) -> dict[str, pa.Table | str]:
    """Return file name → table of all fits, and summary.json (infinity as null)."""
    sizes = np.array(AHEAD, np.float64) * findings.n
    names = ("low", "median", "high")
    extrapolation = findings.extrapolation
    forecast = findings.forecast
    curve = extrapolation.curve
    law = extrapolation.law
    summary = standard_json({
        **page.head,
        "metric": findings.metric,
        "level": extrapolation.level,
        "needed": [asdict(needed) for needed in findings.needed],
        "expected": [
            {"samples": n, **dict(zip(names, scores, strict=True))}
            for n, scores in zip(sizes, extrapolation.score(sizes).T, strict=True)
        ],
        "ceiling": dict(zip(names, extrapolation.ceiling, strict=True)),
        "law": {
            "equation": "error(n) = floor + drop (n/reference)^(-exponent)",
            "floor": law.floor[0],
            "drop": law.drop[0],
            "exponent": law.exponent[0],
            "reference": law.reference,
        },
        "start": curve.start,
        "forecast": None if forecast is None else asdict(forecast) | {"holds": forecast.holds},
        "validation_share": findings.validation_share,
        "sizes": [
            {"samples": n, "mean": s.mean(), "std": s.std(ddof=1)}
            for n, s in zip(curve.sizes, curve.score, strict=True)
        ],
    })
    return {"fits.parquet": curve.to_table(), "summary.json": summary}
