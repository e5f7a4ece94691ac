"""Figures of a weighting: how uneven it is, whether it helps, and where it moves the boundary."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from datassay.act.weigh.decision_boundary import Boundary
from datassay.act.weigh.gain import WeightGain
from datassay.commands.weigh.job import WeighFindings
from datassay.report.plots import chart, histogram, level, line, marks
from datassay.report.style import BLUE, GREY, INK, RULE, VERMILION, plain
from datassay.report.wording import percent

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

N_BINS = 40
MAX_POINTS = 3000
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star")
HEAT = [[0, "#d6dde5"], [0.5, "#e69f00"], [1, "#b84300"]]


def weight_figure(findings: WeighFindings) -> Figure:
    """Histogram of the weights with doubtful samples apart; counts on a logarithmic axis."""
    weight, bad = findings.sample_weight, findings.near.is_doubtful
    low, high = float(weight.min()), float(weight.max())
    if high - low <= 1e-9 * high:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, N_BINS + 1)
    figure = chart(
        "sample weight", "samples (log scale)", barmode="overlay", showlegend=bool(bad.any())
    )
    hover = "weight about %{x:.3g}: %{y:,}"
    histogram(figure, weight, edges, "all samples", BLUE, hover)
    if bad.any():
        name = "contradicted by their neighbours"
        histogram(figure, weight[bad], edges, name, VERMILION, hover)
    level(figure, x=1)
    figure.add_annotation(
        x=1, y=1, yref="paper", yanchor="bottom", xanchor="left", text="mean 1", showarrow=False
    )
    figure.update_yaxes(type="log", dtick=1)
    return figure


def share_figure(findings: WeighFindings, part: float) -> Figure:
    """Share of the weight that the heaviest samples hold; uniform weights are its diagonal."""
    weight = np.sort(findings.weights.weight)[::-1]
    n = len(weight)
    sizes = np.unique(np.linspace(0, n, min(n, 200) + 1).round().astype(int))
    held = np.concatenate([[0], np.cumsum(weight)]) / weight.sum()
    figure = chart("share of the samples, heaviest first", "share of the weight", margin_r=26)
    line(figure, [0, 1], [0, 1], "no weights", GREY, width=1.5, dash="dot")
    hover = "heaviest %{x:.1%}: %{y:.1%} of the weight<extra></extra>"
    line(figure, sizes / n, held[sizes], findings.method, BLUE, hover, width=3)
    tenth = len(findings.heaviest) / n
    marks(
        figure, [tenth], [part], size=9, mode="markers+text", textposition="middle right",
        text=[f"{percent(round(tenth, 2))} hold {percent(round(part, 2))}"], showlegend=False,
    )  # fmt: skip
    figure.update_xaxes(tickformat=".0%", range=[0, 1], dtick=0.25)
    figure.update_yaxes(tickformat=".0%", range=[0, 1.03])
    return figure


def gain_figure(gain: WeightGain) -> Figure:
    """The change of score under each weighting: a dot a seed, the mean with its interval."""
    points = gain.metric == "accuracy"
    unit, n = 100 if points else 1, len(gain.names) - 1
    title = "change of accuracy, points" if points else f"change of {gain.metric}"
    figure = chart(title, height=120 + 64 * n, showlegend=False)
    for i, name in enumerate(gain.names[1:], 1):
        mean, half = (unit * v for v in gain.difference(i))
        seeds = unit * (gain.score[:, i] - gain.score[:, 0])
        colour = BLUE if i == 1 else GREY
        values, counts = np.unique(seeds.round(9), return_counts=True)
        height, hover = np.full(len(values), n + 1 - i) + 0.28, "%{x:+.3g} (seeds: %{customdata})"
        marks(
            figure, values, height, name, colour, hover, size=8 * np.sqrt(counts), opacity=0.45,
            customdata=counts, legendgroup=name,
        )  # fmt: skip
        hover, bar = f"mean %{{x:+.3g}} ± {half:.3g}", half if math.isfinite(half) else 0
        marks(
            figure, [mean], [n + 1 - i], name, colour, hover, size=12, symbol="diamond",
            error_x={"array": [bar], "thickness": 2.5}, legendgroup=name,
        )  # fmt: skip
    level(figure, x=0)
    labels = [plain(name) for name in gain.names[1:]]
    figure.update_yaxes(
        tickvals=list(range(n, 0, -1)), ticktext=labels, range=[0.6, n + 0.6], showgrid=False
    )
    return figure


def boundary_figure(findings: WeighFindings, boundary: Boundary) -> Figure:
    """Samples coloured by weight, and where networks with and without weights change their mind."""
    names = [plain(n) for n in findings.samples.feature_names] or ["x0", "x1"]
    figure = chart(names[0], names[1], height=460)
    lines = (("boundary without weights", GREY, "dot"), ("boundary with weights", BLUE, "solid"))
    for lead, (name, colour, dash) in zip(boundary.lead, lines, strict=True):
        for surface in lead[:1] if len(lead) == 2 else lead:
            figure.add_contour(
                x=boundary.horizontal.round(4), y=boundary.vertical.round(4), z=surface.round(3),
                contours={"start": 0, "end": 0, "size": 1, "coloring": "none"},
                line={"color": colour, "width": 3, "dash": dash},
                showscale=False, hoverinfo="skip", showlegend=False,
            )  # fmt: skip
        line(figure, [None], [None], name, colour, width=3, dash=dash)
    _add_samples(figure, findings)
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
        look = {"color": weight[own], "coloraxis": "coloraxis", "size": 7}
        look |= {"symbol": SYMBOLS[c % len(SYMBOLS)], "line": {"width": 0.5, "color": "#ffffff"}}
        hover = "weight %{marker.color:.3g}"
        x, y = samples.x[own, 0], samples.x[own, 1]
        marks(figure, x, y, name, INK, hover, limit=28, marker=look)
    bar = {"title": {"text": "weight"}, "thickness": 12, "outlinewidth": 0}
    figure.update_layout(coloraxis={"colorscale": HEAT, "colorbar": bar})
