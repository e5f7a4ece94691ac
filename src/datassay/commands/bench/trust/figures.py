"""The figure of a trust check: each score's correlation with its interval, and the ceiling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from datassay.report.style import BLUE, GREY, INK, VERMILION, style
from datassay.score.compare.trust import CARE, DISTRUST, PREDICTIONS, TRUST, TrustCheck

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

COLOURS = {TRUST: BLUE, CARE: "#b8860b", DISTRUST: VERMILION}
FREE = "free"


def correlation_figure(check: TrustCheck, question: str) -> Figure:
    """One mark a score of a question; the ceiling as a line."""
    import plotly.graph_objects as go

    rows = [i for i, asked in enumerate(check.question) if asked == question][::-1]
    names = [check.score[i] for i in rows]
    kind = [FREE if check.trivial[i] else check.verdict[i] for i in rows]
    figure = go.Figure()
    for group, colour in (*COLOURS.items(), (FREE, GREY)):
        here = [j for j, one in enumerate(kind) if one == group]
        if not here:
            continue
        places = np.array([rows[j] for j in here])
        value = check.correlation[places]
        figure.add_scatter(
            x=value, y=[names[j] for j in here], mode="markers", name=group,
            marker={"color": colour, "size": 11},
            error_x={
                "type": "data", "symmetric": False, "array": check.high[places] - value,
                "arrayminus": value - check.low[places], "color": colour, "thickness": 2,
            },
            hovertemplate="%{y}: %{x:.3f}<extra></extra>",
        )  # fmt: skip
    if question == PREDICTIONS:
        figure.add_vline(
            x=check.ceiling.value, line={"color": INK, "width": 1.5, "dash": "dash"},
            annotation_text="ceiling", annotation_position="top",
        )  # fmt: skip
    style(figure, "correlation with retraining", "")
    figure.update_yaxes(categoryorder="array", categoryarray=names)
    least = min(0.0, float(np.nanmin(check.low[rows])))
    figure.update_xaxes(range=[least - 0.03, 1.03], showgrid=True)
    figure.update_layout(height=130 + 34 * len(rows), showlegend=True)
    return figure
