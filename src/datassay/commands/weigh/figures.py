"""Figures of a weighting: how uneven it is, whether it helps, and where it moves the boundary."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from datassay.act.weigh.decision_boundary import Boundary
from datassay.act.weigh.gain import WeightGain
from datassay.commands.weigh.findings import WeighFindings, concentration, doubtful
from datassay.report.style import BLUE, GREY, INK, RULE, VERMILION, plain, style
from datassay.report.wording import percent

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

N_BINS = 40
MAX_POINTS = 3000
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star")
HEAT = [[0, "#d6dde5"], [0.5, "#e69f00"], [1, "#b84300"]]


def weight_figure(findings: WeighFindings) -> Figure:
    """Histogram of the weights with doubtful samples apart; counts on a logarithmic axis."""
    import plotly.graph_objects as go

    weight, bad = findings.sample_weight, doubtful(findings)
    low, high = float(weight.min()), float(weight.max())
    if high - low <= 1e-9 * high:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, N_BINS + 1)
    middle, width = (edges[1:] + edges[:-1]) / 2, edges[1] - edges[0]
    figure = go.Figure()
    parts = [("all samples", np.ones(len(weight), bool), BLUE)]
    if bad.any():
        parts.append(("contradicted by their neighbours", bad, VERMILION))
    for name, inside, colour in parts:
        counts = np.histogram(weight[inside], edges)[0]
        there = counts > 0
        figure.add_bar(
            x=middle[there],
            y=counts[there],
            width=width,
            name=name,
            marker={"color": colour, "line": {"width": 0}},
            hovertemplate="weight about %{x:.3g}: %{y:,}<extra>%{fullData.name}</extra>",
        )
    figure.add_vline(x=1, line={"color": INK, "width": 1.5, "dash": "dash"})
    figure.add_annotation(
        x=1, y=1, yref="paper", yanchor="bottom", xanchor="left", text="mean 1", showarrow=False
    )
    style(figure, "sample weight", "samples (log scale)")
    figure.update_layout(barmode="overlay", showlegend=len(parts) > 1)
    figure.update_yaxes(type="log", dtick=1)
    return figure


def share_figure(findings: WeighFindings) -> Figure:
    """Share of the weight that the heaviest samples hold; uniform weights are its diagonal."""
    import plotly.graph_objects as go

    weight = np.sort(findings.weights.weight)[::-1]
    n = len(weight)
    sizes = np.unique(np.linspace(0, n, min(n, 200) + 1).round().astype(int))
    share = np.concatenate([[0], np.cumsum(weight)]) / weight.sum()
    figure = go.Figure()
    figure.add_scatter(
        x=[0, 1], y=[0, 1], mode="lines", name="no weights", hoverinfo="skip",
        line={"color": GREY, "width": 1.5, "dash": "dot"},
    )  # fmt: skip
    figure.add_scatter(
        x=sizes / n,
        y=share[sizes],
        mode="lines",
        name=plain(findings.method),
        line={"color": BLUE, "width": 3},
        hovertemplate="heaviest %{x:.1%}: %{y:.1%} of the weight<extra></extra>",
    )
    tenth = len(findings.heaviest) / n
    held = concentration(findings).heaviest_share
    figure.add_scatter(
        x=[tenth],
        y=[held],
        mode="markers+text",
        text=[f"{percent(round(tenth, 2))} hold {percent(round(held, 2))}"],
        textposition="middle right",
        marker={"color": BLUE, "size": 9},
        showlegend=False,
        hoverinfo="skip",
    )
    style(figure, "share of the samples, heaviest first", "share of the weight")
    figure.update_layout(margin_r=26)
    figure.update_xaxes(tickformat=".0%", range=[0, 1], dtick=0.25)
    figure.update_yaxes(tickformat=".0%", range=[0, 1.03])
    return figure


def gain_figure(gain: WeightGain) -> Figure:
    """The change of score under each weighting: a dot a seed, the mean with its interval."""
    import plotly.graph_objects as go

    points = gain.metric == "accuracy"
    unit = 100 if points else 1
    figure = go.Figure()
    for i, name in enumerate(gain.names[1:], 1):
        mean, half = (unit * v for v in gain.difference(i))
        seeds = unit * (gain.score[:, i] - gain.score[:, 0])
        colour = BLUE if i == 1 else GREY
        shared = {"name": plain(name), "legendgroup": name}
        values, counts = np.unique(seeds.round(9), return_counts=True)
        figure.add_scatter(
            x=values,
            y=np.full(len(values), len(gain.names) - i) + 0.28,
            mode="markers",
            marker={"color": colour, "size": 8 * np.sqrt(counts), "opacity": 0.45},
            customdata=counts,
            hovertemplate="%{x:+.3g} (seeds: %{customdata})<extra>%{fullData.name}</extra>",
            showlegend=False,
            **shared,
        )
        figure.add_scatter(
            x=[mean],
            y=[len(gain.names) - i],
            mode="markers",
            marker={"color": colour, "size": 12, "symbol": "diamond"},
            error_x={"array": [half if math.isfinite(half) else 0], "thickness": 2.5},
            hovertemplate=f"mean %{{x:+.3g}} ± {half:.3g}<extra>%{{fullData.name}}</extra>",
            **shared,
        )
    figure.add_vline(x=0, line={"color": INK, "width": 1.5, "dash": "dash"})
    style(figure, "change of accuracy, points" if points else f"change of {gain.metric}", "")
    n = len(gain.names) - 1
    figure.update_layout(height=120 + 64 * n, showlegend=False)
    labels = [plain(name) for name in gain.names[1:]]
    figure.update_yaxes(
        tickvals=list(range(n, 0, -1)), ticktext=labels, range=[0.6, n + 0.6], showgrid=False
    )
    return figure


def boundary_figure(findings: WeighFindings, boundary: Boundary) -> Figure:
    """Samples coloured by weight, and where networks with and without weights change their mind."""
    import plotly.graph_objects as go

    figure = go.Figure()
    lines = (("boundary without weights", GREY, "dot"), ("boundary with weights", BLUE, "solid"))
    for lead, (name, colour, dash) in zip(boundary.lead, lines, strict=True):
        surfaces = lead[:1] if len(lead) == 2 else lead
        for surface in surfaces:
            figure.add_contour(
                x=boundary.horizontal.round(4),
                y=boundary.vertical.round(4),
                z=surface.round(3),
                contours={"start": 0, "end": 0, "size": 1, "coloring": "none"},
                line={"color": colour, "width": 3, "dash": dash},
                showscale=False,
                hoverinfo="skip",
                showlegend=False,
            )
        figure.add_scatter(
            x=[None], y=[None], mode="lines", name=name,
            line={"color": colour, "width": 3, "dash": dash},
        )  # fmt: skip
    _add_samples(figure, findings)
    names = [plain(n) for n in findings.samples.feature_names] or ["x0", "x1"]
    style(figure, names[0], names[1])
    figure.update_layout(height=460)
    figure.update_yaxes(gridcolor=RULE)
    return figure


def _add_samples(figure: Figure, findings: WeighFindings) -> None:
    samples, weight = findings.samples, findings.sample_weight
    # The heaviest are drawn last, on top; of very many samples a random part stands for all.
    shown = findings.order[::-1]
    if len(shown) > MAX_POINTS:
        shown = shown[np.sort(np.random.default_rng(0).permutation(len(shown))[:MAX_POINTS])]
    for c, name in enumerate(samples.class_names):
        own = shown[samples.y[shown] == c]
        figure.add_scatter(
            x=samples.x[own, 0],
            y=samples.x[own, 1],
            mode="markers",
            name=plain(name),
            marker={
                "color": weight[own],
                "coloraxis": "coloraxis",
                "symbol": SYMBOLS[c % len(SYMBOLS)],
                "size": 7,
                "line": {"width": 0.5, "color": "#ffffff"},
            },
            hovertemplate="weight %{marker.color:.3g}<extra>%{fullData.name}</extra>",
        )
    figure.update_layout(
        coloraxis={
            "colorscale": HEAT,
            "colorbar": {"title": {"text": "weight"}, "thickness": 12, "outlinewidth": 0},
        }
    )
