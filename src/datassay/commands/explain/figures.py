"""The figure of an explanation: how self-influence is spread."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from datassay.commands.explain.findings import ExplainFindings
from datassay.report.style import BLUE, VERMILION, decades, style

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

N_BINS, SMALLEST_SHARE = 40, 1e-6


def self_influence_figure(findings: ExplainFindings, n_first: int) -> Figure:
    """Histogram of self-influence on a logarithmic axis; those of the table in a colour.

    Returns:
        Samples below 1e-6 of the largest are counted in the first bin.
    """
    import plotly.graph_objects as go

    values = findings.self_influence
    exponents = np.log10(np.maximum(values, max(float(values.max()), 1e-300) * SMALLEST_SHARE))
    low, high = float(exponents.min()), float(exponents.max())
    edges = np.linspace(
        *((low, high) if high - low > 1e-9 else (low - 0.5, high + 0.5)), N_BINS + 1
    )
    is_first = np.zeros(len(values), bool)
    is_first[findings.first[:n_first]] = True
    figure = go.Figure()
    for name, colour, inside in (
        ("all others", BLUE, ~is_first),
        ("in the table", VERMILION, is_first),
    ):
        figure.add_bar(
            x=(edges[1:] + edges[:-1]) / 2,
            y=np.histogram(exponents[inside], edges)[0],
            width=edges[1] - edges[0],
            name=name,
            customdata=[f"{10**a:.2g} to {10**b:.2g}" for a, b in pairwise(edges)],
            marker={"color": colour, "line": {"width": 0}},
            hovertemplate="%{y} samples at %{customdata}<extra>%{fullData.name}</extra>",
        )
    style(figure, "self-influence, loss unit", "samples")
    ticks, texts = decades(int(np.ceil(edges[0])), int(np.floor(edges[-1])))
    figure.update_xaxes(tickvals=ticks, ticktext=texts)
    figure.update_layout(barmode="stack", showlegend=True)
    return figure
