"""Figures of a sampling: where the function changes, where the new points went, what it brought."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from datassay.act.sample.comparison import SamplingComparison, mean_interval
from datassay.act.sample.taylor import TaylorSample
from datassay.commands.sample.findings import TAYLOR, UNIFORM, SamplingFindings
from datassay.report.style import BLUE, GREY, INK, QUIET, SKY, VERMILION, log_ticks, plain, style

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# A side of a map has so many cells at most, and so many that a cell holds this many initial points.
MOST_CELLS, POINTS_A_CELL = 24, 4
OUTPUT_COLOURS = (INK, SKY, "#009e73")


def function_figure(findings: SamplingFindings) -> Figure:
    """F and Df, the new points on the axis and on f (S0 Fig. 4)."""
    import plotly.graph_objects as go

    sample, curve = findings.sample, findings.curve
    first, new = ~sample.is_new, sample.is_new
    if curve is not None:
        x, y, index = curve.x, curve.y, curve.index
    else:  # lines through the initial points
        order = np.argsort(sample.x[first, 0])
        x, y, index = sample.x[first, 0][order], sample.y[first][order], sample.index[order]
    figure = go.Figure()
    figure.add_scatter(
        x=x, y=index, yaxis="y2", mode="lines", name="Df, right axis",
        line={"color": BLUE, "width": 1.5, "dash": "dash"}, fill="tozeroy",
        fillcolor="rgba(0,114,178,.10)", hovertemplate="x = %{x:.4g}: Df = %{y:.3g}<extra></extra>",
    )  # fmt: skip
    for k, name in enumerate(findings.outputs[: len(OUTPUT_COLOURS)]):
        figure.add_scatter(
            x=x, y=y[:, k], mode="lines", name=plain(name),
            line={"color": OUTPUT_COLOURS[k], "width": 2},
            hovertemplate="x = %{x:.4g}: %{y:.4g}<extra></extra>",
        )  # fmt: skip
    shown = y[:, : len(OUTPUT_COLOURS)]
    span = float(shown.max() - shown.min()) or 1.0
    floor = float(shown.min()) - 0.09 * span
    _points(figure, sample.x[first, 0], sample.y[first, 0], "initial points", GREY, "circle")
    _points(figure, sample.x[new, 0], sample.y[new, 0], "new points", VERMILION, "diamond")
    figure.add_scatter(
        x=sample.x[new, 0], y=np.full(int(new.sum()), floor), mode="markers", showlegend=False,
        marker={"symbol": "line-ns-open", "size": 11, "color": VERMILION}, hoverinfo="skip",
    )  # fmt: skip
    style(figure, plain(findings.inputs[0]), plain(", ".join(findings.outputs), 40))
    figure.update_yaxes(range=[floor - 0.05 * span, float(shown.max()) + 0.07 * span])
    figure.update_layout(margin_r=64, yaxis2=_right_axis(float(index.max())))
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
    import plotly.graph_objects as go

    values = getattr(comparison, which)  # [2, S]
    runs = values.shape[1]
    aside = np.linspace(-0.08, 0.08, runs) if runs > 1 else np.zeros(1)
    figure = go.Figure()
    for s in range(runs):
        figure.add_scatter(
            x=aside[s] + np.arange(2), y=values[:, s], mode="lines+markers", showlegend=False,
            line={"color": "rgba(138,148,160,.45)", "width": 1},
            marker={"color": GREY, "size": 7}, hovertemplate="%{y:.3g}<extra></extra>",
        )  # fmt: skip
    for d, (name, colour) in enumerate(zip(comparison.names, (BLUE, VERMILION), strict=True)):
        mean, half = mean_interval(values[d])
        figure.add_scatter(
            x=[d + (0.2 if d else -0.2)], y=[mean], mode="markers", name=plain(name),
            showlegend=False, marker={"color": colour, "size": 11, "symbol": "square"},
            error_y={"array": [half if np.isfinite(half) else 0.0], "thickness": 2, "width": 7},
            hovertemplate=f"mean %{{y:.3g}} ± {half:.2g}<extra></extra>",
        )  # fmt: skip
    style(figure, "points learnt from", which.replace("_", " ") + " error")
    names = [plain(name) for name in comparison.names]
    figure.update_xaxes(tickvals=[0, 1], ticktext=names, range=[-0.5, 1.5])
    figure.update_yaxes(rangemode="tozero")
    figure.update_layout(showlegend=False)
    return figure


def bound_figure(findings: SamplingFindings) -> Figure:
    """What each cell adds to the bound at K = 0, before and after."""
    import plotly.graph_objects as go

    figure, bounds = go.Figure(), findings.bounds[0]
    for name, bound, colour, width in (
        ("initial points", bounds.initial, GREY, 1.5),
        (f"and {UNIFORM} ones", bounds.uniform, BLUE, 2),
        (f"and {TAYLOR} ones", bounds.taylor, VERMILION, 2),
    ):
        order = np.argsort(bound.cell[:, 0], kind="stable")
        figure.add_scatter(
            x=bound.cell[order].ravel(), y=np.repeat(bound.term[order], 2), mode="lines",
            name=name, line={"color": colour, "width": width},
            fill="tozeroy" if name.startswith("initial") else None,
            fillcolor="rgba(138,148,160,.15)",
            hovertemplate="x = %{x:.4g}: %{y:.3g}<extra></extra>",
        )  # fmt: skip
    style(figure, plain(findings.inputs[0]), "bound of the cell")
    figure.update_yaxes(exponentformat="power", rangemode="tozero", nticks=6)
    return figure


def gain_figure(findings: SamplingFindings) -> Figure:
    """How much each added point takes from the bound, alone, at K = 0."""
    import plotly.graph_objects as go

    figure, bounds, new = go.Figure(), findings.bounds[0], findings.sample.is_new
    for name, x, y, colour, symbol in (
        (UNIFORM, bounds.uniform_x[new], bounds.gain_uniform, BLUE, "circle"),
        (TAYLOR, findings.sample.x[new, 0], bounds.gain_taylor, VERMILION, "diamond"),
    ):
        figure.add_scatter(
            x=x, y=y, mode="markers", name=name,
            marker={"color": colour, "size": 8, "symbol": symbol, "opacity": 0.8},
            hovertemplate="x = %{x:.4g}: %{y:.3g}<extra></extra>",
        )  # fmt: skip
    style(figure, plain(findings.inputs[0]), "bound lowered by")
    figure.update_yaxes(exponentformat="power", nticks=6)
    figure.add_hline(y=0, line={"color": GREY, "width": 1})
    return figure


def _right_axis(largest: float) -> dict[str, object]:
    """The axis of Df, with ticks of its own."""
    return {
        "overlaying": "y", "side": "right", "title": {"text": "Df", "standoff": 8},
        "tickmode": "auto", "showgrid": False, "zeroline": False, "nticks": 5,
        "range": [0, 1.1 * largest], "tickcolor": QUIET, "ticks": "outside",
        "exponentformat": "power", "automargin": True,
    }  # fmt: skip


def _points(figure: Figure, x: np.ndarray, y: np.ndarray, name: str, colour: str, symbol: str):
    figure.add_scatter(
        x=x, y=y, mode="markers", name=name,
        marker={"color": colour, "size": 7, "symbol": symbol, "opacity": 0.8,
                "line": {"color": "white", "width": 0.5}},
        hovertemplate="(%{x:.4g}, %{y:.4g})<extra>" + name + "</extra>",
    )  # fmt: skip


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
    import plotly.graph_objects as go

    title = {"text": bar.pop("title"), "side": "top"}
    figure = go.Figure()
    figure.add_heatmap(
        x=edges[0], y=edges[1], z=values.T, text=text.T, hovertemplate=f"{hover}<extra></extra>",
        colorscale=[[0, "#eef5fa"], [0.5, "#3aa0d8"], [1, "#00335a"]], hoverongaps=False,
        colorbar={"title": title, "thickness": 12, "outlinewidth": 0, **bar},
    )  # fmt: skip
    style(figure, plain(findings.inputs[0]), plain(findings.inputs[1]))
    figure.update_layout(margin_r=24)
    figure.update_yaxes(showgrid=False)
    return figure
