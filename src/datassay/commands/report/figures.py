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


def consensus_figures(findings: ConsensusFindings) -> dict[str, tuple[str, str]]:
    """All the figures that these findings can fill.

    Args:
        findings: of two runs or more.

    Returns:
        Figure name → (plotly JSON, what it shows for who cannot see it).
    """
    found = findings.found
    drawn: dict[str, tuple[Figure, str]] = {}
    both = (("information", found.information_agreement), ("issues", found.issue_agreement))
    for name, agreement in both:
        if agreement is not None:
            text = f"Rank correlations of {name} between every two runs"
            drawn[name] = (agreement_figure(agreement), text)
    if (found.information[[0, -1]] > 0).any(1).all():
        text = f"Information of each sample in {found.names[0]} and in {found.names[-1]}"
        drawn["samples"] = (sample_figure(findings), text)
    return {name: (str(figure.to_json()), text) for name, (figure, text) in drawn.items()}


def agreement_figure(agreement: Stability) -> Figure:
    """Rank correlations between runs as a map (S1 Fig. 5).

    Args:
        agreement: of r runs.

    Returns:
        The figure: blue where two runs agree, orange where they contradict each other.
    """
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
    found, shown = findings.found, drawn_samples(findings)
    first, last = plain(found.names[0]), plain(found.names[-1])
    named = zip(found.ids, findings.label, strict=True)
    return equal_figure(
        found.information[0],
        found.information[-1],
        (f"information, {first}", f"the same, {last}"),
        [
            Dots("not suspected", shown & (found.votes == 0), SKY, size=5),
            Dots("suspected by some", shown & (found.votes > 0), VERMILION, size=7),
        ],
        np.array([f"{plain(str(i))}<br>label {plain(str(label))}" for i, label in named]),
        "id %{text}<br>%{x:.3g} and %{y:.3g} nats",
    )


def drawn_samples(findings: ConsensusFindings) -> np.ndarray:
    """Which samples stand in the figure.

    Args:
        findings: of two runs or more.

    Returns:
        [c] bool: information positive in both runs, at most 4000, suspected ones before others.
    """
    found = findings.found
    return drawn_dots(*found.information[[0, -1]], first=found.votes > 0)
