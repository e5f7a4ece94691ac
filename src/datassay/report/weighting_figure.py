"""The map of validation scores by neighbours and weight ratio (S0 Fig. 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from datassay.act.weigh.grid import WeightingGrid
from datassay.report.style import BLUE, style

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def weighting_grid_figure(grid: WeightingGrid) -> Figure:
    """Score of every pair (k, m), and a contour where weighting is worth what none is.

    Args:
        grid: the scores.

    Returns:
        A plotly figure; darker is better.
    """
    from plotly import graph_objects as go

    axes = {"x": grid.n_neighbors, "y": grid.max_ratios}
    shown = go.Heatmap(
        z=grid.score,
        **axes,
        colorscale=[[0, "#ffffff"], [1, BLUE]],
        colorbar={"title": {"text": grid.metric}},
        hovertemplate="k %{x}, m %{y:.3g}: %{z:.4g}<extra></extra>",
    )
    figure = go.Figure(shown)
    if grid.score.min() < grid.uniform < grid.score.max() and min(grid.score.shape) > 1:
        figure.add_trace(
            go.Contour(
                z=grid.score,
                **axes,
                contours={
                    "start": grid.uniform,
                    "end": grid.uniform,
                    "size": 1,
                    "coloring": "lines",
                },
                line={"width": 2},
                colorscale=[[0, "#1f2933"], [1, "#1f2933"]],
                showscale=False,
                hoverinfo="skip",
                name="no weights",
            )
        )
    style(figure, "neighbours k", "largest weight over smallest, m")
    best = np.unravel_index(grid.score.argmax(), grid.score.shape)
    figure.add_annotation(
        x=grid.n_neighbors[best[1]], y=grid.max_ratios[best[0]], text="best", showarrow=False
    )
    return figure
