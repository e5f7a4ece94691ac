"""Figures of a learning curve: score against samples, and the error on logarithmic axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from datassay.commands.complexity.curve.findings import AHEAD, CurveFindings
from datassay.report.style import BLUE, GREY, INK, VERMILION, log_ticks, style

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
    import plotly.graph_objects as go

    curve, metric = findings.extrapolation.curve, findings.metric
    n = np.geomspace(findings.extrapolation.covers, _reach(findings), POINTS)
    low, median, high = findings.extrapolation.score(n)
    figure = go.Figure()
    _band(figure, n, low, high, findings.interval)
    figure.add_scatter(
        x=n, y=median, mode="lines", name="law, median",
        line={"color": BLUE, "width": 2.5},
        hovertemplate=f"%{{x:,.0f}} samples: {metric} %{{y:.3f}}<extra></extra>",
    )  # fmt: skip
    _fits(figure, curve.sizes, curve.score, metric)
    for i, one in enumerate(findings.needed):
        figure.add_scatter(
            x=[curve.sizes[0], n[-1]], y=[one.score] * 2, mode="lines",
            name="wanted", showlegend=i == 0, hoverinfo="skip",
            line={"color": VERMILION, "width": 1.5, "dash": "dash"},
        )  # fmt: skip
        _mark_needed(figure, one, float(n[-1]))
    _now_line(figure, findings.n)
    style(figure, "training samples (log scale)", metric)
    _log_sizes(figure, float(curve.sizes[0]), float(n[-1]))
    floor = float(min(low[0], curve.score.min()))
    top = float(max(high.max(), curve.score.max(), *(one.score for one in findings.needed)))
    room = 0.04 * (top - floor)
    figure.update_yaxes(range=[max(floor - room, -0.5), min(top + room, 1.005)])
    figure.update_layout(height=420)
    return figure


def error_figure(findings: CurveFindings) -> Figure:
    """1 − score on two logarithmic axes, where a power law without floor is straight."""
    import plotly.graph_objects as go

    curve = findings.extrapolation.curve
    n = np.geomspace(findings.extrapolation.covers, _reach(findings), POINTS)
    low, median, high = np.maximum(1 - findings.extrapolation.score(n), 1e-5)
    figure = go.Figure()
    _band(figure, n, high, low, findings.interval)
    figure.add_scatter(
        x=n, y=median, mode="lines", name="law, median", line={"color": BLUE, "width": 2.5},
        hovertemplate="%{x:,.0f} samples: error %{y:.3g}<extra></extra>",
    )  # fmt: skip
    every = np.geomspace(curve.sizes[0], n[-1], POINTS)
    figure.add_scatter(
        x=every, y=np.maximum(findings.extrapolation.law.errors(every)[0], 1e-5), mode="lines",
        name="power law of the mean",
        line={"color": INK, "width": 1.5, "dash": "dot"},
        hovertemplate="%{x:,.0f} samples: error %{y:.3g}<extra></extra>",
    )  # fmt: skip
    mean = 1 - curve.score.mean(1)
    shown = mean > 0
    figure.add_scatter(
        x=curve.sizes[shown], y=mean[shown], mode="markers", name="mean of the fits",
        marker={"color": INK, "size": 8, "symbol": "diamond"},
        hovertemplate="%{x:,} samples: error %{y:.3g}<extra></extra>",
    )  # fmt: skip
    _now_line(figure, findings.n)
    style(figure, "training samples (log scale)", f"1 − {findings.metric} (log scale)")
    values = np.concatenate([high, low, mean[shown]])
    _log_sizes(figure, float(curve.sizes[0]), float(n[-1]))
    figure.update_yaxes(type="log", **log_ticks(values))
    figure.update_layout(height=420)
    return figure


def _band(figure: Figure, n: np.ndarray, low: np.ndarray, high: np.ndarray, name: str) -> None:
    figure.add_scatter(
        x=np.r_[n, n[::-1]], y=np.r_[low, high[::-1]], mode="lines", fill="toself", name=name,
        line={"width": 0}, fillcolor="rgba(0,114,178,.16)", hoverinfo="skip",
    )  # fmt: skip


def _fits(figure: Figure, sizes: np.ndarray, score: np.ndarray, metric: str) -> None:
    figure.add_scatter(
        x=np.repeat(sizes, score.shape[1]), y=score.ravel(), mode="markers", name="one fit",
        marker={"color": GREY, "size": 5, "opacity": 0.5}, hoverinfo="skip",
    )  # fmt: skip
    figure.add_scatter(
        x=sizes, y=score.mean(1), mode="markers", name="mean of the fits",
        marker={"color": INK, "size": 8, "symbol": "diamond"},
        hovertemplate=f"%{{x:,}} samples: {metric} %{{y:.3f}}<extra></extra>",
    )  # fmt: skip


def _mark_needed(figure: Figure, one, end: float) -> None:
    """The interval of the number needed, as a bar on the line of the score wanted."""
    if not np.isfinite(one.low) or one.low >= end:
        return
    high = min(one.high, end)
    figure.add_scatter(
        x=[one.low, high], y=[one.score] * 2, mode="lines", showlegend=False, hoverinfo="skip",
        line={"color": VERMILION, "width": 5}, opacity=0.55,
    )  # fmt: skip
    if one.median < end:
        figure.add_scatter(
            x=[one.median], y=[one.score], mode="markers", showlegend=False,
            marker={"color": VERMILION, "size": 11, "line": {"color": "white", "width": 1.5}},
            hovertemplate="%{y}: %{x:,.0f} samples<extra></extra>",
        )  # fmt: skip


def _now_line(figure: Figure, n: int) -> None:
    figure.add_vline(x=n, line={"color": GREY, "width": 1, "dash": "dot"})


def _log_sizes(figure: Figure, low: float, high: float) -> None:
    ends = np.array([0.9 * low, high])
    figure.update_xaxes(type="log", range=np.log10(ends).tolist(), **log_ticks(ends))
