"""Figure of the check: what the linearised network says against what retraining changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from datassay.report.figure_style import BLUE, equal_axes, plain
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
    titles = ("change of the predictions, linearised", "the same, network retrained")
    equal_axes(figure, both, *titles)
    figure.add_scatter(
        x=check.linearised, y=check.retrained, mode="markers", name="one sample each",
        marker={"color": BLUE, "size": 8}, text=[plain(str(i)) for i in check.ids],
        hovertemplate="id %{text}<br>linearised %{x:.3g}<br>retrained %{y:.3g}<extra></extra>",
    )  # fmt: skip
    return figure
