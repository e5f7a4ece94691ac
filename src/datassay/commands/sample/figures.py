"""Figures of a sampling: where the function changes, where the new points went, what it brought."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from datassay.commands.sample.bound_figures import bound_figure, gain_figure
from datassay.commands.sample.findings import SamplingFindings
from datassay.report.style import (
    BLUE,
    GREY,
    INK,
    QUIET,
    SKY,
    VERMILION,
    log_ticks,
    plain,
    style,
)

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# A side of a map has so many cells at most, and so many that a cell holds this many initial points.
MOST_CELLS, POINTS_A_CELL = 24, 4
OUTPUT_COLOURS = (INK, SKY, "#009e73")


def sampling_figures(findings: SamplingFindings) -> dict[str, tuple[str, str]]:
    """All the figures that these findings can fill.

    Args:
        findings: one sampling.

    Returns:
        Figure name → (plotly JSON, what it shows for who cannot see it).
    """
    drawn: dict[str, tuple[Figure, str]] = {}
    if len(findings.inputs) == 1:
        text = "The function, its Taylor index, and the initial and new points"
        drawn["function"] = (function_figure(findings), text)
    else:
        text = "Largest Taylor index of the initial points over two inputs"
        drawn["index"] = (index_map(findings), text)
        drawn["new"] = (new_map(findings), "Number of new points over the same two inputs")
    if findings.comparison is not None:
        for name, what in (("largest", "Largest error"), ("root_mean_square", "Mean error")):
            text = f"{what} of each network, by the points it learnt from"
            drawn[name] = (error_figure(findings, name), text)
    if findings.bounds:
        text = "Generalisation bound of each cell: initial, uniform and Taylor-based points"
        drawn["bound"] = (bound_figure(findings), text)
        text = "How much each added point lowers the bound, against its place"
        drawn["gain"] = (gain_figure(findings), text)
    return {name: (str(figure.to_json()), text) for name, (figure, text) in drawn.items()}


def function_figure(findings: SamplingFindings) -> Figure:
    """F and Df, the new points on the axis and on f (S0 Fig. 4).

    Args:
        findings: of a function of one input.

    Returns:
        The figure; lines through the initial points where no finer curve is known.
    """
    import plotly.graph_objects as go

    found, curve = findings.found, findings.curve
    first, new = ~found.is_new, found.is_new
    order = np.argsort(found.x[first, 0])
    x, y, index = found.x[first, 0][order], found.y[first][order], found.index[order]
    if curve is not None:
        x, y, index = curve.x, curve.y, curve.index
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
    _points(figure, found.x[first, 0], found.y[first, 0], "initial points", GREY, "circle")
    _points(figure, found.x[new, 0], found.y[new, 0], "new points", VERMILION, "diamond")
    figure.add_scatter(
        x=found.x[new, 0], y=np.full(int(new.sum()), floor), mode="markers", showlegend=False,
        marker={"symbol": "line-ns-open", "size": 11, "color": VERMILION}, hoverinfo="skip",
    )  # fmt: skip
    style(figure, plain(findings.inputs[0]), plain(", ".join(findings.outputs), 40))
    figure.update_yaxes(range=[floor - 0.05 * span, float(shown.max()) + 0.07 * span])
    figure.update_layout(margin_r=64, yaxis2=_right_axis(float(index.max())))
    return figure


def index_map(findings: SamplingFindings) -> Figure:
    """Largest Df of the initial points in each cell over the first two inputs (S0 Fig. 5, 2a).

    Args:
        findings: of a function of two inputs or more.

    Returns:
        The figure; cells without an initial point are left blank.
    """
    found = findings.found
    x = found.x[~found.is_new]
    place, edges = _cells(findings, x)
    values = np.full((len(edges[0]) - 1, len(edges[1]) - 1), -np.inf)
    np.maximum.at(values, place, found.index)
    positive = values > 0
    logs = np.full(values.shape, np.nan)
    logs[positive] = np.log10(values[positive])
    bar = log_ticks(values[positive])
    if "tickvals" in bar:
        bar["tickvals"] = [float(np.log10(v)) for v in bar["tickvals"]]
        title = "Df"
    else:
        title = "log Df"
    text = np.where(positive, np.vectorize("{:.3g}".format)(values), "")
    hover = "Df at most %{text}<extra></extra>"
    return _map(findings, logs, edges, title, bar, text, hover)


def new_map(findings: SamplingFindings) -> Figure:
    """How many new points each of these cells got.

    Args:
        findings: of a function of two inputs or more.

    Returns:
        The figure; cells without a new point are left blank.
    """
    found = findings.found
    _, edges = _cells(findings, found.x[~found.is_new])
    counts = np.histogram2d(*found.x[found.is_new, :2].T, bins=edges)[0]
    text = counts.astype(int).astype(str)
    blank = np.where(counts > 0, counts, np.nan)
    return _map(findings, blank, edges, "points", {"nticks": 5}, text, "%{text} new<extra></extra>")


def error_figure(findings: SamplingFindings, which: str) -> Figure:
    """One error of every network, by design, with means and their intervals.

    Args:
        findings: with a comparison.
        which: "largest" or "root_mean_square".

    Returns:
        The figure; a line joins the two networks of one run.
    """
    import plotly.graph_objects as go

    from datassay.act.sample.comparison import mean_interval

    comparison = findings.comparison
    assert comparison is not None
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
    figure.update_xaxes(
        tickvals=[0, 1], ticktext=[plain(n) for n in comparison.names], range=[-0.5, 1.5]
    )
    figure.update_yaxes(rangemode="tozero")
    figure.update_layout(showlegend=False)
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


def _cells(
    findings: SamplingFindings, x: Float[np.ndarray, "n d"]
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """The cell of each point over the first two inputs, and the cells' edges."""
    side = int(np.clip(np.sqrt(len(x) / POINTS_A_CELL), 2, MOST_CELLS))
    box = findings.found.domain[:2]
    edges = tuple(np.linspace(low, high, side + 1) for low, high in box)
    shares = (x[:, :2] - box[:, 0]) / (box[:, 1] - box[:, 0])
    place = np.minimum((shares * side).astype(int), side - 1)
    return (place[:, 0], place[:, 1]), (edges[0], edges[1])


def _map(
    findings: SamplingFindings,
    values: np.ndarray,
    edges: tuple[np.ndarray, np.ndarray],
    title: str,
    bar: dict,
    text: np.ndarray,
    hover: str,
) -> Figure:
    import plotly.graph_objects as go

    figure = go.Figure()
    figure.add_heatmap(
        x=edges[0], y=edges[1], z=values.T, text=text.T, hovertemplate=hover,
        colorscale=[[0, "#eef5fa"], [0.5, "#3aa0d8"], [1, "#00335a"]],
        colorbar={"title": {"text": title, "side": "top"}, "thickness": 12, "outlinewidth": 0,
                  **bar},
        hoverongaps=False,
    )  # fmt: skip
    style(figure, plain(findings.inputs[0]), plain(findings.inputs[1]))
    figure.update_layout(margin_r=24)
    figure.update_yaxes(showgrid=False)
    return figure
