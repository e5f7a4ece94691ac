"""Figures of training: what is learned when, and what removing samples costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from datassay.act.remove.removal_curve import RemovalCurve
from datassay.commands.run.findings import (
    HIGHEST_FIRST,
    LOWEST_FIRST,
    RANDOM,
    SUSPECTS_FIRST,
    Findings,
)
from datassay.report.style import BLUE, INK, SKY, VERMILION, log_ticks, plain, style

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

RIVAL_COLOURS = ("#009e73", "#cc79a7", "#b8860b", "#6a5acd", "#8a94a0", "#444444")


def spectrum_figure(findings: Findings) -> Figure:
    """The kernel's eigenvalues, log-log: about 300 points at most, log-spaced in the index."""
    import plotly.graph_objects as go

    values = findings.learning_curve.eigenvalues
    values = values[values > 0]
    index = np.unique(np.geomspace(1, max(len(values), 1), 300).round().astype(int))
    index = index[index <= len(values)]
    figure = go.Figure()
    figure.add_scatter(
        x=index,
        y=values[index - 1],
        mode="lines+markers",
        line={"color": BLUE, "width": 1.5},
        marker={"color": BLUE, "size": 4},
        hovertemplate="mode %{x}: %{y:.3g}<extra></extra>",
    )
    style(figure, "mode", "eigenvalue of the kernel")
    figure.update_layout(showlegend=False)
    figure.update_xaxes(type="log", **log_ticks(index))
    figure.update_yaxes(type="log", **log_ticks(values))
    return figure


def modes_figure(findings: Findings) -> Figure:
    """The predicted share of the residual that is left, by band of modes and in all."""
    import plotly.graph_objects as go

    curve = findings.learning_curve
    figure = go.Figure()
    colours = ("#08519c", "#3182bd", "#6baed6", "#9ecae1", "#bdd7e7", "#d0e1ee")
    for position, (name, left) in enumerate(zip(curve.groups, curve.residual, strict=True)):
        figure.add_scatter(
            x=curve.steps,
            y=left,
            mode="lines",
            name=plain(name),
            line={"color": colours[min(position, len(colours) - 1)], "width": 2},
            hovertemplate="step %{x:.3g}: %{y:.1%} left<extra>%{fullData.name}</extra>",
        )
    figure.add_scatter(
        x=curve.steps,
        y=curve.total,
        mode="lines",
        name="all modes",
        line={"color": INK, "width": 3.5},
        hovertemplate="step %{x:.3g}: %{y:.1%} left<extra>%{fullData.name}</extra>",
    )
    style(figure, "training steps", "share of squared residual left")
    figure.update_xaxes(type="log", **log_ticks(curve.steps))
    figure.update_yaxes(tickformat=".0%", range=[0, 1.03])
    figure.update_layout(height=400)
    return figure


def removal_figure(findings: Findings) -> Figure:
    """Score of retrained networks against the fraction removed, one line a ranking.

    Returns:
        Error bars are one standard deviation over seeds.
    """
    import plotly.graph_objects as go

    curve = findings.removal_curve
    assert curve is not None, "the page draws this figure only where the curve was measured"
    figure = go.Figure()
    for name, score in zip(curve.rankings, curve.score, strict=True):
        _add_ranking(figure, curve, name, score)
    _style_removal(figure, curve, f"validation {curve.metric}")
    return figure


def gain_figure(findings: Findings) -> Figure:
    """What each keep-set gains over removing as many at random, seed by seed.

    Returns:
        "highest information first", which removes what the others keep, is left out. Error bars are
        one standard deviation of the difference over seeds.
    """
    import plotly.graph_objects as go

    curve = findings.removal_curve
    assert curve is not None, "the page draws this figure only where the curve was measured"
    rival = curve.score[curve.rankings.index(RANDOM)]
    percents = curve.metric == "accuracy"
    figure = go.Figure()
    for name, score in zip(curve.rankings, curve.score, strict=True):
        if name not in {HIGHEST_FIRST, RANDOM}:
            _add_ranking(figure, curve, name, (score - rival) * (100 if percents else 1))
    figure.add_hline(y=0, line={"color": INK, "width": 2, "dash": "dash"})
    _style_removal(figure, curve, f"{curve.metric} minus random's" + ", points" * percents)
    return figure


def _add_ranking(figure: Figure, curve: RemovalCurve, name: str, values: np.ndarray) -> None:
    line = _line(curve.rankings, name)
    figure.add_scatter(
        x=100 * curve.fractions,
        y=values.mean(axis=1),
        mode="lines+markers",
        name=plain(name, 40),
        line=line,
        marker={"size": 4 + line["width"]},
        opacity=1.0 if line["width"] > 2 else 0.75,
        error_y={
            "array": values.std(axis=1, ddof=1) if values.shape[1] > 1 else None,
            "thickness": 1,
            "width": 2,
        },
        hovertemplate="%{x:.0f} % removed: %{y:.3f}<extra>%{fullData.name}</extra>",
    )


def _style_removal(figure: Figure, curve: RemovalCurve, y_title: str) -> None:
    style(figure, "training samples removed, %", y_title)
    figure.update_layout(height=440, showlegend=True)
    figure.update_xaxes(range=[-2, 100 * curve.fractions.max() + 2])


def _line(rankings: tuple[str, ...], ranking: str) -> dict:
    ours = {LOWEST_FIRST: BLUE, HIGHEST_FIRST: VERMILION, SUSPECTS_FIRST: SKY}
    if ranking in ours:
        return {"color": ours[ranking], "width": 3}
    if ranking == RANDOM:
        return {"color": INK, "width": 2, "dash": "dash"}
    rivals = [r for r in rankings if r not in {*ours, RANDOM}]
    colour = RIVAL_COLOURS[rivals.index(ranking) % len(RIVAL_COLOURS)]
    return {"color": colour, "width": 1.5}
