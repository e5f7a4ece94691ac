"""Figure of the projection: how much more features rank samples as exact scores do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datassay.report.style import BLUE, INK, VERMILION, style
from datassay.score.compare.projection_quality import ProjectionQuality

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

COLOURS = (BLUE, VERMILION, INK)


def projection_figure(quality: ProjectionQuality) -> Figure:
    """Rank correlation with exact scores against features, one line a score.

    Returns:
        Bars are 95 % intervals, dashed lines what is reached without any projection.
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    for colour, (score, correlation) in zip(COLOURS, quality.correlation.items(), strict=True):
        mean, p = correlation.mean(1), quality.n_features
        figure.add_scatter(
            x=p,
            y=mean,
            mode="lines+markers",
            name=score.replace("_", " "),
            line={"color": colour, "width": 2},
            error_y={
                "array": quality.high[score] - mean,
                "arrayminus": mean - quality.low[score],
                "thickness": 1,
            },
            hovertemplate="%{x:,} features: %{y:.3f}<extra>%{fullData.name}</extra>",
        )
        figure.add_scatter(
            x=[p[0], p[-1]],
            y=[quality.unprojected[score]] * 2,
            mode="lines",
            line={"color": colour, "width": 1, "dash": "dash"},
            showlegend=False,
            hovertemplate="unprojected: %{y:.3f}<extra></extra>",
        )
    style(figure, "features, p", "rank correlation with exact scores")
    ticks = [int(p) for p in quality.n_features]
    figure.update_xaxes(type="log", tickvals=ticks, ticktext=[f"{p:,}" for p in ticks])
    figure.update_yaxes(range=[0, 1.03])
    figure.update_layout(height=400)
    return figure
