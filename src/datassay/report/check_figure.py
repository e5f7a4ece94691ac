"""Figure of the check: what the linearised network says against what retraining changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from datassay.report.figure_style import BLUE, INK, log_ticks, plain, style
from datassay.score.retraining_check import RetrainingCheck

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def check_figure(check: RetrainingCheck) -> Figure:
    """Changes by retraining against those by the linearised network, one mark a sample.

    Args:
        check: of at least five samples.

    Returns:
        The figure, both axes logarithmic; on the dashed line the two agree.
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    both = np.concatenate([check.linearised, check.retrained])
    there = both[both > 0]
    ends = [there.min(), there.max()] if len(there) else [1.0, 1.0]
    figure.add_scatter(
        x=ends, y=ends, mode="lines", name="equal", hoverinfo="skip",
        line={"color": INK, "width": 1, "dash": "dash"},
    )  # fmt: skip
    figure.add_scatter(
        x=check.linearised, y=check.retrained, mode="markers", name="one sample each",
        marker={"color": BLUE, "size": 8}, text=[plain(str(i)) for i in check.ids],
        hovertemplate="id %{text}<br>linearised %{x:.3g}<br>retrained %{y:.3g}<extra></extra>",
    )  # fmt: skip
    style(figure, "change of the predictions, linearised", "the same, network retrained")
    ticks = log_ticks(np.array(ends))
    figure.update_xaxes(type="log", **ticks)
    figure.update_yaxes(type="log", **ticks)
    figure.update_layout(height=420)
    return figure
