"""Figure of the check: what the linearised network says against what retraining changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from datassay.report.style import BLUE, Dots, equal_figure, plain
from datassay.score.compare.retraining_check import RetrainingCheck

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def check_figure(check: RetrainingCheck) -> Figure:
    """Changes by retraining against those by the linearised network, one mark a sample.

    Returns:
        Both axes are logarithmic; on the dashed line the two agree.
    """
    return equal_figure(
        check.linearised,
        check.retrained,
        ("change of the predictions, linearised", "the same, network retrained"),
        [Dots("one sample each", np.ones(len(check.ids), bool), BLUE, size=8, opacity=1.0)],
        np.array([plain(str(i)) for i in check.ids]),
        "id %{text}<br>linearised %{x:.3g}<br>retrained %{y:.3g}",
    )
