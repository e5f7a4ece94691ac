"""Figures of a polynomial surrogate: how the ridge was chosen, and what corruption costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from datassay.polynomial.batched import BatchCurve
from datassay.polynomial.exact import RidgePath
from datassay.report.style import BLUE, GREY, INK, SKY, VERMILION, log_ticks, style
from datassay.score.compare.robustness import Robustness

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

LEVELS = {
    "noise": "standard deviation σ of the noise",
    "patches": "area A of the black patch, pixels",
}
LINES = ((BLUE, "solid"), (VERMILION, "dash"), (GREY, "dot"))


def ridge_figure(path: RidgePath) -> Figure:
    """Leave-one-out error against the ridge, squared and, of classes, the share of wrong ones."""
    import plotly.graph_objects as go

    figure = go.Figure()
    figure.add_scatter(
        x=path.ridge, y=path.squared_error, mode="lines+markers", name="squared error",
        line={"color": BLUE, "width": 2.5}, marker={"size": 5},
        hovertemplate="ridge %{x:.3g}: %{y:.4g}<extra>squared error</extra>",
    )  # fmt: skip
    two = bool(np.isfinite(path.class_error).any())
    if two:
        figure.add_scatter(
            x=path.ridge, y=path.class_error, mode="lines", name="share of wrong classes, right",
            line={"color": VERMILION, "width": 2, "dash": "dash"}, yaxis="y2",
            hovertemplate="ridge %{x:.3g}: %{y:.2%} wrong<extra></extra>",
        )  # fmt: skip
    taken = float(path.ridge[path.chosen])
    figure.add_vline(x=taken, line={"color": INK, "width": 1.5, "dash": "dot"})
    figure.add_annotation(
        x=float(np.log10(taken)), y=1, yref="paper", yanchor="bottom", text=f"taken: {taken:.3g}",
        showarrow=False,
    )  # fmt: skip
    style(figure, "ridge (log scale)", "leave-one-out squared error")
    figure.update_xaxes(type="log", tickangle=0, **log_ticks(path.ridge))
    figure.update_layout(showlegend=two)
    if two:
        right = {"overlaying": "y", "side": "right", "showgrid": False, "tickformat": ".1%"}
        right |= {"title": {"text": "wrong classes"}, "rangemode": "tozero", "ticks": "outside"}
        right |= {"tickmode": "auto", "nticks": 6}
        figure.update_layout(margin_r=64, yaxis2=right)
    return figure


def batch_figure(curve: BatchCurve) -> Figure:
    """Scores as batches are averaged (S3 Figs 3.11 and 3.12)."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for name, values, colour, dash in (
        ("average so far, validation", curve.cumulative, BLUE, "solid"),
        ("one batch alone, validation", curve.single, GREY, "dot"),
        ("average so far, in sample", curve.in_sample, VERMILION, "dash"),
        ("average so far, out of bag", curve.out_of_bag, SKY, "dashdot"),
    ):
        there = np.isfinite(values)
        if there.any():
            figure.add_scatter(
                x=np.arange(1, len(values) + 1)[there], y=values[there], name=name,
                mode="lines+markers" if there.sum() < 3 else "lines",
                line={"color": colour, "width": 2.5, "dash": dash},
                hovertemplate="%{x} batches: %{y:.3f}<extra>%{fullData.name}</extra>",
            )  # fmt: skip
    style(figure, "batches", "accuracy" if curve.is_accuracy else "R²")
    if curve.is_accuracy:
        figure.update_yaxes(tickformat=".0%")
    return figure


def level_figure(robust: Robustness, lost: bool) -> Figure:
    """Accuracy, or the share of it lost, by level: a line a model (S3 Figs 3.23 and 3.24)."""
    import plotly.graph_objects as go

    figure, values = go.Figure(), robust.drop if lost else robust.accuracy
    ours_first = list(zip(robust.names, values, strict=True))[::-1]
    for (name, y), (colour, dash) in zip(ours_first, LINES, strict=False):
        figure.add_scatter(
            x=robust.levels, y=y, mode="lines+markers", name=name,
            line={"color": colour, "width": 2.5, "dash": dash}, marker={"size": 5},
            hovertemplate="%{x:.3g}: %{y:.1%}<extra>%{fullData.name}</extra>",
        )  # fmt: skip
    style(figure, LEVELS[robust.corruption], "share lost" if lost else "accuracy")
    figure.update_yaxes(tickformat=".0%", rangemode="tozero")
    return figure
