"""Figures of the generalisation bound, cell by cell (S0 Fig. 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from datassay.act.sample.generalization_bound import GeneralizationBound
from datassay.commands.sample.findings import TAYLOR, UNIFORM, Bounds, SamplingFindings
from datassay.report.style import BLUE, GREY, VERMILION, plain, style

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def bound_figure(findings: SamplingFindings) -> Figure:
    """What each cell adds to the bound at K = 0, before and after.

    Args:
        findings: with bounds.

    Returns:
        The figure: one step a cell.
    """
    import plotly.graph_objects as go

    figure, bounds = go.Figure(), findings.bounds[0]
    for name, bound, colour, width in (
        ("initial points", bounds.initial, GREY, 1.5),
        (f"and {UNIFORM} ones", bounds.uniform, BLUE, 2),
        (f"and {TAYLOR} ones", bounds.taylor, VERMILION, 2),
    ):
        x, y = _steps(bound)
        figure.add_scatter(
            x=x, y=y, mode="lines", name=name, line={"color": colour, "width": width},
            fill="tozeroy" if name.startswith("initial") else None,
            fillcolor="rgba(138,148,160,.15)",
            hovertemplate="x = %{x:.4g}: %{y:.3g}<extra></extra>",
        )  # fmt: skip
    style(figure, plain(findings.inputs[0]), "bound of the cell")
    figure.update_yaxes(exponentformat="power", rangemode="tozero", nticks=6)
    return figure


def gain_figure(findings: SamplingFindings) -> Figure:
    """How much each added point takes from the bound, alone, at K = 0.

    Args:
        findings: with bounds.

    Returns:
        The figure.
    """
    import plotly.graph_objects as go

    figure, bounds = go.Figure(), findings.bounds[0]
    new = findings.found.is_new
    for name, x, y, colour, symbol in _gains(bounds, findings.found.x[new, 0], new):
        figure.add_scatter(
            x=x, y=y, mode="markers", name=name,
            marker={"color": colour, "size": 8, "symbol": symbol, "opacity": 0.8},
            hovertemplate="x = %{x:.4g}: %{y:.3g}<extra></extra>",
        )  # fmt: skip
    style(figure, plain(findings.inputs[0]), "bound lowered by")
    figure.update_yaxes(exponentformat="power", nticks=6)
    figure.add_hline(y=0, line={"color": GREY, "width": 1})
    return figure


def _gains(bounds: Bounds, taylor_x: np.ndarray, new: np.ndarray):
    return (
        (UNIFORM, bounds.uniform_x[new], bounds.gain_uniform, BLUE, "circle"),
        (TAYLOR, taylor_x, bounds.gain_taylor, VERMILION, "diamond"),
    )


def _steps(bound: GeneralizationBound) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(bound.cell[:, 0], kind="stable")
    return bound.cell[order].ravel(), np.repeat(bound.term[order], 2)
