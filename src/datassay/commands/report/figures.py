"""Figures of a comparison of runs: who agrees with whom, and two runs sample by sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from datassay.commands.report.findings import ConsensusFindings
from datassay.report.style import (
    BLUE,
    SKY,
    VERMILION,
    Dots,
    drawn_dots,
    equal_figure,
    plain,
    style,
)
from datassay.score.compare.stability import Stability

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MOST_NUMBERS = 12  # runs whose correlations are printed into the cells
AGREEMENT_COLOURS = ((0.0, VERMILION), (0.5, "#ffffff"), (1.0, BLUE))


def agreement_figure(agreement: Stability) -> Figure:
    """Rank correlations of r runs as a map (S1 Fig. 5): blue agrees, orange contradicts."""
    import plotly.graph_objects as go

    names = [plain(name, 22) for name in agreement.names]
    values = agreement.spearman
    figure = go.Figure()
    # By number: two long names may be cut to the same text, and plotly would merge them.
    places = list(range(len(names)))
    figure.add_heatmap(
        x=places, y=places, z=values, zmin=-1, zmax=1, colorscale=AGREEMENT_COLOURS, xgap=2, ygap=2,
        texttemplate="%{z:.2f}" if len(names) <= MOST_NUMBERS else None,
        customdata=[[f"{a}, {b}" for b in names] for a in names],
        hovertemplate="%{customdata}: %{z:.3f}<extra></extra>",
        colorbar={"thickness": 10, "outlinewidth": 0, "tickvals": [-1, 0, 1]},
    )  # fmt: skip
    style(figure, "", "")
    figure.update_xaxes(tickvals=places, ticktext=names, showline=False, ticks="")
    figure.update_yaxes(
        tickvals=places, ticktext=names, autorange="reversed", showgrid=False, ticks=""
    )
    figure.update_layout(height=160 + 36 * len(names), showlegend=False)
    return figure


def sample_figure(findings: ConsensusFindings) -> Figure:
    """Information of each sample in the first run and in the last.

    Args:
        findings: of two runs or more, with positive information in these two.

    Returns:
        The figure, both axes logarithmic; suspected samples are marked. Of more than 4000 samples
        the suspected ones and some at random are drawn.
    """
    consensus, shown = findings.consensus, drawn_samples(findings)
    first, last = plain(consensus.names[0]), plain(consensus.names[-1])
    named = zip(consensus.ids, findings.label, strict=True)
    return equal_figure(
        consensus.information[0],
        consensus.information[-1],
        (f"information, {first}", f"the same, {last}"),
        [
            Dots("not suspected", shown & (consensus.votes == 0), SKY, size=5),
            Dots("suspected by some", shown & (consensus.votes > 0), VERMILION, size=7),
        ],
        np.array([f"{plain(str(i))}<br>label {plain(str(label))}" for i, label in named]),
        "id %{text}<br>%{x:.3g} and %{y:.3g} nats",
    )


def drawn_samples(findings: ConsensusFindings) -> np.ndarray:
    """[c]: positive information in both runs, at most 4000 samples, suspected ones first."""
    consensus = findings.consensus
    return drawn_dots(*consensus.information[[0, -1]], first=consensus.votes > 0)
