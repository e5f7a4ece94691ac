"""Figures of the labels: how likely they are wrong, and which noise was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from datassay.commands.run.findings import Findings
from datassay.data.samples import wrong_labels
from datassay.report.style import BLUE, GREY, INK, QUIET, RULE, VERMILION, plain, style

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# Chances drawn, as log odds; further ones are counted at the edge. Of regression z-scores − 3.5.
FARTHEST_ODDS, FARTHEST_SCORE = 11.5, 20.0
CHANCES, MORE_CHANCES = (0.0001, 0.01, 0.5, 0.99, 0.9999), (0.1, 0.9)
MOST_DRAWN, MOST_WRITTEN = 30, 12
LONGEST_NAME = 16


def issue_figure(findings: Findings) -> Figure:
    """Histogram of label issue scores, split by truth where it is known, else by suspicion.

    Returns:
        On an axis of log odds, with chances as its marks; of regression, of scores.
    """
    import plotly.graph_objects as go

    issues, wrong = findings.issues, wrong_labels(findings.samples)
    score, is_odds = np.clip(issues.score, *_drawn(findings)), issues.posterior is not None
    if wrong is None:
        suspect = issues.is_issue
        groups = [("not suspected", ~suspect, GREY), ("suspected", suspect, VERMILION)]
    else:
        groups = [("label is correct", ~wrong, BLUE), ("label is wrong", wrong, VERMILION)]
    edges, width = _edges(score)
    figure = go.Figure()
    for name, inside, colour in groups:
        figure.add_bar(
            x=(edges[1:] + edges[:-1]) / 2,
            y=np.histogram(score[inside], edges)[0],
            width=width,
            name=name,
            marker={"color": colour, "line": {"width": 0}},
            hovertemplate="%{y} samples near %{x:.2f}<extra>%{fullData.name}</extra>",
        )
    titles = "label issue score (modified z-score − 3.5)", "how likely the label is wrong"
    style(figure, titles[is_odds], "samples")
    if is_odds:
        figure.add_vline(x=0, line={"color": INK, "width": 1.5, "dash": "dash"})
        figure.add_annotation(
            x=0, y=1, yref="paper", yanchor="bottom", xanchor="left", text="suspected →",
            showarrow=False,
        )  # fmt: skip
        chances = CHANCES + MORE_CHANCES * bool(edges[-1] - edges[0] < FARTHEST_ODDS)
        ticks = [float(np.log(p / (1 - p))) for p in chances]
        texts = [f"{100 * p:g} %" for p in chances]
        figure.update_xaxes(tickvals=ticks, ticktext=texts, tickangle=0)
    figure.update_layout(barmode="stack")
    return figure


def beyond(findings: Findings) -> int:
    """How many samples lie outside the drawn range and are counted at its edge."""
    low, high = _drawn(findings)
    return int(((findings.issues.score < low) | (findings.issues.score > high)).sum())


def _drawn(findings: Findings) -> tuple[float, float]:
    if findings.issues.posterior is None:
        return -FARTHEST_SCORE, FARTHEST_SCORE
    return -FARTHEST_ODDS, FARTHEST_ODDS


def _edges(score: np.ndarray) -> tuple[np.ndarray, float]:
    """Bins with an edge at 0, so that no bar straddles the cut-off, and their width."""
    low, high = float(score.min()), float(score.max())
    low, high = (low, high) if high - low > 1e-9 else (low - 0.5, high + 0.5)
    width = (high - low) / 50
    return width * np.arange(np.floor(low / width), np.ceil(high / width) + 1), width


def noise_figure(findings: Findings) -> Figure:
    """The noise that was found: P(given label | true class) in per cent, of few classes.

    Returns:
        A heat map: confusions in colour; what is right, on the diagonal, in grey.
    """
    import plotly.graph_objects as go

    share = 100 * findings.issues.noise[0].transition
    names = [plain(name, LONGEST_NAME) for name in findings.samples.class_names]
    right = np.eye(len(names), dtype=bool)
    told = np.array([[f"“{a}” given as “{b}”: " for b in names] for a in names])
    figure, top = go.Figure(), float(share[~right].max())
    kinds = ((~right, [[0, "#ffffff"], [1, VERMILION]], top), (right, [[0, RULE], [1, RULE]], 100))
    for inside, colours, largest in kinds:
        values = np.where(inside, share, np.nan)
        figure.add_heatmap(
            z=values, zmin=0, zmax=largest, colorscale=colours, showscale=False, xgap=1, ygap=1,
            customdata=told, hovertemplate="%{customdata}%{z:.1f} %<extra></extra>",
        )  # fmt: skip
    if len(names) <= MOST_WRITTEN:
        for c, g in np.argwhere(share >= 0.5):
            figure.add_annotation(
                x=g, y=c, text=f"{share[c, g]:.0f}", showarrow=False,
                font={"color": QUIET if c == g else INK, "size": 11},
            )  # fmt: skip
    style(figure, "given label", "true class")
    ticks = {"tickvals": list(range(len(names))), "ticktext": names, "ticks": ""}
    figure.update_xaxes(**ticks, automargin=True, showline=False)
    figure.update_yaxes(**ticks, autorange="reversed", showgrid=False)
    figure.update_layout(height=max(220, min(760, 140 + 32 * len(names))))
    return figure
