"""Figures of a polynomial surrogate: how the ridge was chosen, and what corruption costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from datassay.polynomial.batched import BatchCurve
from datassay.polynomial.exact import RidgePath
from datassay.report.plots import chart, level, line
from datassay.report.style import BLUE, GREY, SKY, VERMILION
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
    two = bool(np.isfinite(path.class_error).any())
    title = "leave-one-out squared error"
    figure = chart("ridge (log scale)", title, log_x=path.ridge, showlegend=two)
    line(
        figure, path.ridge, path.squared_error, "squared error", BLUE,
        "ridge %{x:.3g}: %{y:.4g}<extra>squared error</extra>", width=2.5, mode="lines+markers",
        marker={"size": 5},
    )  # fmt: skip
    if two:
        name, hover = "share of wrong classes, right", "ridge %{x:.3g}: %{y:.2%} wrong"
        hover += "<extra></extra>"
        line(figure, path.ridge, path.class_error, name, VERMILION, hover, dash="dash", yaxis="y2")
        right = {"overlaying": "y", "side": "right", "showgrid": False, "tickformat": ".1%"}
        right |= {"title": {"text": "wrong classes"}, "rangemode": "tozero", "ticks": "outside"}
        right |= {"tickmode": "auto", "nticks": 6}
        figure.update_layout(margin_r=64, yaxis2=right)
    taken = float(path.ridge[path.chosen])
    level(figure, x=taken, dash="dot")
    figure.add_annotation(
        x=float(np.log10(taken)), y=1, yref="paper", yanchor="bottom", text=f"taken: {taken:.3g}",
        showarrow=False,
    )  # fmt: skip
    figure.update_xaxes(tickangle=0)
    return figure


def batch_figure(curve: BatchCurve) -> Figure:
    """Scores as batches are averaged (S3 Figs 3.11 and 3.12)."""
    figure = chart("batches", "accuracy" if curve.is_accuracy else "R²")
    for name, values, colour, dash in (
        ("average so far, validation", curve.cumulative, BLUE, "solid"),
        ("one batch alone, validation", curve.single, GREY, "dot"),
        ("average so far, in sample", curve.in_sample, VERMILION, "dash"),
        ("average so far, out of bag", curve.out_of_bag, SKY, "dashdot"),
    ):
        there = np.isfinite(values)
        if there.any():
            x = np.arange(1, len(values) + 1)[there]
            mode = "lines+markers" if there.sum() < 3 else "lines"
            look: Any = {"width": 2.5, "dash": dash, "mode": mode}
            line(figure, x, values[there], name, colour, "%{x} batches: %{y:.3f}", **look)
    if curve.is_accuracy:
        figure.update_yaxes(tickformat=".0%")
    return figure


def level_figure(robust: Robustness, lost: bool) -> Figure:
    """Accuracy, or the share of it lost, by level: a line a model (S3 Figs 3.23 and 3.24)."""
    figure = chart(LEVELS[robust.corruption], "share lost" if lost else "accuracy")
    values = robust.drop if lost else robust.accuracy
    ours_first = list(zip(robust.names, values, strict=True))[::-1]
    for (name, y), (colour, dash) in zip(ours_first, LINES, strict=False):
        look: Any = {"width": 2.5, "dash": dash, "mode": "lines+markers", "marker": {"size": 5}}
        line(figure, robust.levels, y, name, colour, "%{x:.3g}: %{y:.1%}", **look)
    figure.update_yaxes(tickformat=".0%", rangemode="tozero")
    return figure
