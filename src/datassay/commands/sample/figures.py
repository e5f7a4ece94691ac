"""Figures of a sampling: where the function changes, where the new points went, what it brought."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from datassay.act.sample.comparison import SamplingComparison
from datassay.act.sample.taylor import TaylorSample
from datassay.commands.sample.job import TAYLOR, UNIFORM, SamplingFindings
from datassay.report.plots import chart, level, line, marks
from datassay.report.style import BLUE, GREY, INK, QUIET, SKY, VERMILION, log_ticks, plain
from datassay.stats import mean_interval

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# A side of a map has so many cells at most, and so many that a cell holds this many initial points.
MOST_CELLS, POINTS_A_CELL = 24, 4
OUTPUT_COLOURS = (INK, SKY, "#009e73")


def function_figure(findings: SamplingFindings) -> Figure:
    """F and Df, the new points on the axis and on f (S0 Fig. 4)."""
    sample, curve = findings.sample, findings.curve
    first, new = ~sample.is_new, sample.is_new
    if curve is not None:
        x, y, index = curve.x, curve.y, curve.index
    else:  # lines through the initial points
        order = np.argsort(sample.x[first, 0])
        x, y, index = sample.x[first, 0][order], sample.y[first][order], sample.index[order]
    figure = chart(plain(findings.inputs[0]), plain(", ".join(findings.outputs), 40))
    line(
        figure, x, index, "Df, right axis", BLUE, "x = %{x:.4g}: Df = %{y:.3g}<extra></extra>",
        width=1.5, dash="dash", yaxis="y2", fill="tozeroy", fillcolor="rgba(0,114,178,.10)",
    )  # fmt: skip
    values = "x = %{x:.4g}: %{y:.4g}<extra></extra>"
    for k, name in enumerate(findings.outputs[: len(OUTPUT_COLOURS)]):
        line(figure, x, y[:, k], name, OUTPUT_COLOURS[k], values, limit=28)
    shown = y[:, : len(OUTPUT_COLOURS)]
    span = float(shown.max() - shown.min()) or 1.0
    floor = float(shown.min()) - 0.09 * span
    for inside, name, colour, symbol in (
        (first, "initial points", GREY, "circle"), (new, "new points", VERMILION, "diamond"),
    ):  # fmt: skip
        place = sample.x[inside, 0], sample.y[inside, 0]
        marks(figure, *place, name, colour, values, symbol=symbol, opacity=0.8)
    strokes = np.full(int(new.sum()), floor)
    look = {"symbol": "line-ns-open", "size": 11, "showlegend": False}
    marks(figure, sample.x[new, 0], strokes, "", VERMILION, **look)
    figure.update_yaxes(range=[floor - 0.05 * span, float(shown.max()) + 0.07 * span])
    right = {
        "overlaying": "y", "side": "right", "title": {"text": "Df", "standoff": 8},
        "tickmode": "auto", "showgrid": False, "zeroline": False, "nticks": 5,
        "range": [0, 1.1 * float(index.max())], "tickcolor": QUIET, "ticks": "outside",
        "exponentformat": "power", "automargin": True,
    }  # fmt: skip
    figure.update_layout(margin_r=64, yaxis2=right)
    return figure


def index_map(findings: SamplingFindings) -> Figure:
    """Largest Df of the initial points in each cell over two inputs, or blank (S0 Fig. 5, 2a)."""
    sample = findings.sample
    place, edges = _cells(sample)
    values = np.full((len(edges[0]) - 1, len(edges[1]) - 1), -np.inf)
    np.maximum.at(values, place, sample.index)
    positive = values > 0
    logs = np.full(values.shape, np.nan)
    logs[positive] = np.log10(values[positive])
    bar, title = log_ticks(values[positive]), "log Df"
    if "tickvals" in bar:
        bar["tickvals"], title = [float(np.log10(v)) for v in bar["tickvals"]], "Df"
    text = np.where(positive, np.vectorize("{:.3g}".format)(values), "")
    return _map(findings, logs, edges, {"title": title, **bar}, text, "Df at most %{text}")


def new_map(findings: SamplingFindings) -> Figure:
    """How many new points each of these cells got, or blank."""
    sample = findings.sample
    _, edges = _cells(sample)
    counts = np.histogram2d(*sample.x[sample.is_new, :2].T, bins=edges)[0]
    text = counts.astype(int).astype(str)
    blank = np.where(counts > 0, counts, np.nan)
    return _map(findings, blank, edges, {"title": "points", "nticks": 5}, text, "%{text} new")


def error_figure(comparison: SamplingComparison, which: str) -> Figure:
    """The `which` error of every network by design, a line a run, with means and intervals."""
    values = getattr(comparison, which)  # [2, S]
    runs = values.shape[1]
    aside = np.linspace(-0.08, 0.08, runs) if runs > 1 else np.zeros(1)
    figure = chart("points learnt from", which.replace("_", " ") + " error", showlegend=False)
    for s in range(runs):
        line(
            figure, aside[s] + np.arange(2), values[:, s], "", "rgba(138,148,160,.45)",
            "%{y:.3g}", width=1, mode="lines+markers", marker={"color": GREY, "size": 7},
        )  # fmt: skip
    for d, (name, colour) in enumerate(zip(comparison.names, (BLUE, VERMILION), strict=True)):
        found = mean_interval(values[d])
        mean, half = found.gain, found.half
        bar = {"array": [half if np.isfinite(half) else 0.0], "thickness": 2, "width": 7}
        marks(
            figure, [d + (0.2 if d else -0.2)], [mean], name, colour,
            f"mean %{{y:.3g}} ± {half:.2g}<extra></extra>", size=11, symbol="square", error_y=bar,
        )  # fmt: skip
    names = [plain(name) for name in comparison.names]
    figure.update_xaxes(tickvals=[0, 1], ticktext=names, range=[-0.5, 1.5])
    figure.update_yaxes(rangemode="tozero")
    return figure


def bound_figure(findings: SamplingFindings) -> Figure:
    """What each cell adds to the bound at K = 0, before and after."""
    figure, bounds = chart(plain(findings.inputs[0]), "bound of the cell"), findings.bounds[0]
    area = {"fill": "tozeroy", "fillcolor": "rgba(138,148,160,.15)", "width": 1.5}
    for name, bound, colour, look in (
        ("initial points", bounds.initial, GREY, area),
        (f"and {UNIFORM} ones", bounds.uniform, BLUE, {}),
        (f"and {TAYLOR} ones", bounds.taylor, VERMILION, {}),
    ):
        order = np.argsort(bound.cell[:, 0], kind="stable")
        x, y = bound.cell[order].ravel(), np.repeat(bound.term[order], 2)
        line(figure, x, y, name, colour, "x = %{x:.4g}: %{y:.3g}<extra></extra>", **look)
    figure.update_yaxes(exponentformat="power", rangemode="tozero", nticks=6)
    return figure


def gain_figure(findings: SamplingFindings) -> Figure:
    """How much each added point takes from the bound, alone, at K = 0."""
    bounds, new = findings.bounds[0], findings.sample.is_new
    figure = chart(plain(findings.inputs[0]), "bound lowered by")
    for name, x, y, colour, symbol in (
        (UNIFORM, bounds.uniform_x[new], bounds.gain_uniform, BLUE, "circle"),
        (TAYLOR, findings.sample.x[new, 0], bounds.gain_taylor, VERMILION, "diamond"),
    ):
        hover = "x = %{x:.4g}: %{y:.3g}<extra></extra>"
        marks(figure, x, y, name, colour, hover, size=8, symbol=symbol, opacity=0.8)
    figure.update_yaxes(exponentformat="power", nticks=6)
    level(figure, y=0, colour=GREY, dash=None, width=1)
    return figure


def _cells(sample: TaylorSample) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """The cell of each initial point over the first two inputs, and the cells' edges."""
    x, box = sample.x[~sample.is_new, :2], sample.domain[:2]
    side = int(np.clip(np.sqrt(len(x) / POINTS_A_CELL), 2, MOST_CELLS))
    edges = tuple(np.linspace(low, high, side + 1) for low, high in box)
    shares = (x - box[:, 0]) / (box[:, 1] - box[:, 0])
    return tuple(np.minimum((shares * side).astype(int), side - 1).T), edges


def _map(
    findings: SamplingFindings,
    values: np.ndarray,
    edges: tuple[np.ndarray, ...],
    bar: dict,
    text: np.ndarray,
    hover: str,
) -> Figure:
    title = {"text": bar.pop("title"), "side": "top"}
    figure = chart(plain(findings.inputs[0]), plain(findings.inputs[1]), margin_r=24)
    figure.add_heatmap(
        x=edges[0], y=edges[1], z=values.T, text=text.T, hovertemplate=f"{hover}<extra></extra>",
        colorscale=[[0, "#eef5fa"], [0.5, "#3aa0d8"], [1, "#00335a"]], hoverongaps=False,
        colorbar={"title": title, "thickness": 12, "outlinewidth": 0, **bar},
    )  # fmt: skip
    figure.update_yaxes(showgrid=False)
    return figure
