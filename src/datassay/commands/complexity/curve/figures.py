"""Figures of a learning curve: score against samples, and the error on logarithmic axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from datassay.commands.complexity.curve.findings import AHEAD, CurveFindings
from datassay.complexity.needed_samples import NeededSamples
from datassay.report.plots import chart, level, line, marks
from datassay.report.style import BLUE, GREY, INK, VERMILION, log_ticks

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# How far the figures reach, in times the samples there are.
FARTHEST = 64
POINTS = 120


def _reach(findings: CurveFindings) -> float:
    """Where the axis ends: what the wanted scores need, 8 to 64 times the samples there are."""
    ends = [v for one in findings.needed for v in (one.median, one.high) if np.isfinite(v)]
    least, most = AHEAD[-1] * findings.n, FARTHEST * findings.n
    return float(np.clip(1.3 * max(ends, default=0), least, most))


def score_figure(findings: CurveFindings) -> Figure:
    """Score of every fit, the median law with its interval, the scores wanted."""
    curve, metric = findings.extrapolation.curve, findings.metric
    figure, n = _chart(findings, metric)
    low, median, high = findings.extrapolation.score(n)
    _band(figure, n, low, high, findings.interval)
    hover = f"%{{x:,.0f}} samples: {metric} %{{y:.3f}}<extra></extra>"
    line(figure, n, median, "law, median", BLUE, hover, width=2.5)
    every = np.repeat(curve.sizes, curve.score.shape[1])
    marks(figure, every, curve.score.ravel(), "one fit", GREY, size=5, opacity=0.5)
    hover = hover.replace(",.0f", ",")
    means = curve.score.mean(1)
    marks(figure, curve.sizes, means, "mean of the fits", INK, hover, size=8, symbol="diamond")
    for i, one in enumerate(findings.needed):
        ends, height = [curve.sizes[0], n[-1]], [one.score] * 2
        look = {"width": 1.5, "dash": "dash", "showlegend": i == 0}
        line(figure, ends, height, "wanted", VERMILION, **look)
        _mark_needed(figure, one, float(n[-1]))
    floor = float(min(low[0], curve.score.min()))
    top = float(max(high.max(), curve.score.max(), *(one.score for one in findings.needed)))
    room = 0.04 * (top - floor)
    figure.update_yaxes(range=[max(floor - room, -0.5), min(top + room, 1.005)])
    return figure


def error_figure(findings: CurveFindings) -> Figure:
    """1 − score on two logarithmic axes, where a power law without floor is straight."""
    curve, law = findings.extrapolation.curve, findings.extrapolation.law
    figure, n = _chart(findings, f"1 − {findings.metric} (log scale)")
    low, median, high = np.maximum(1 - findings.extrapolation.score(n), 1e-5)
    _band(figure, n, high, low, findings.interval)
    hover = "%{x:,.0f} samples: error %{y:.3g}<extra></extra>"
    line(figure, n, median, "law, median", BLUE, hover, width=2.5)
    every = np.geomspace(curve.sizes[0], n[-1], POINTS)
    errors = np.maximum(law.errors(every)[0], 1e-5)
    line(figure, every, errors, "power law of the mean", INK, hover, width=1.5, dash="dot")
    mean = 1 - curve.score.mean(1)
    shown = mean > 0
    hover, look = hover.replace(",.0f", ","), {"size": 8, "symbol": "diamond"}
    marks(figure, curve.sizes[shown], mean[shown], "mean of the fits", INK, hover, **look)
    figure.update_yaxes(type="log", **log_ticks(np.concatenate([high, low, mean[shown]])))
    return figure


def _chart(findings: CurveFindings, y_title: str) -> tuple[Figure, np.ndarray]:
    """An empty chart over sizes, the largest measured one marked; and where laws are drawn."""
    n = np.geomspace(findings.extrapolation.covers, _reach(findings), POINTS)
    ends = np.array([0.9 * float(findings.extrapolation.curve.sizes[0]), float(n[-1])])
    figure = chart("training samples (log scale)", y_title, log_x=ends, height=420)
    figure.update_xaxes(range=np.log10(ends).tolist())
    level(figure, x=findings.n, colour=GREY, dash="dot", width=1)
    return figure, n


def _band(figure: Figure, n: np.ndarray, low: np.ndarray, high: np.ndarray, name: str) -> None:
    x, y = np.r_[n, n[::-1]], np.r_[low, high[::-1]]
    area = {"fill": "toself", "fillcolor": "rgba(0,114,178,.16)", "width": 0}
    line(figure, x, y, name, BLUE, **area)


def _mark_needed(figure: Figure, one: NeededSamples, end: float) -> None:
    """The interval of the number needed, as a bar on the line of the score wanted."""
    if not np.isfinite(one.low) or one.low >= end:
        return
    ends: list[float] = [one.low, min(one.high, end)]
    hidden: Any = {"showlegend": False}
    line(figure, ends, [one.score] * 2, "", VERMILION, width=5, opacity=0.55, **hidden)
    if one.median < end:
        look = {"color": VERMILION, "size": 11, "line": {"color": "white", "width": 1.5}}
        hover = "%{y}: %{x:,.0f} samples"
        marks(figure, [one.median], [one.score], "", VERMILION, hover, marker=look, **hidden)
