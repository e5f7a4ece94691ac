"""Figure of information beside random subsets against information beside all other samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from datassay.commands.run.findings import Findings
from datassay.report.style import BLUE, VERMILION, Dots, drawn_dots, equal_figure, plain
from datassay.score.compare.projection_quality import rank_correlation

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# Beside fewer samples everything informs more; a sample counts as stood in for where its own gain
# is so many times that of the median sample.
FACTOR = 3.0


def stand_ins(findings: Findings) -> tuple[float, Int[np.ndarray, " s"]]:
    """Which samples inform little only because others stand in for them.

    Returns:
        The rank correlation of both informations, and positions of those samples, the largest gain
        first.
    """
    assert findings.average is not None
    alone, average = findings.information.information, findings.average.information
    known = (alone > 0) & (average > 0)
    gain = np.where(known, average, 1.0) / np.where(known, alone, 1.0)
    limit = FACTOR * np.median(gain[known]) if known.any() else np.inf
    order = np.argsort(-gain, kind="stable")
    return float(rank_correlation(alone, average)), order[(known & (gain > limit))[order]]


def subset_figure(findings: Findings) -> Figure:
    """Average information against information, one mark a sample, 4000 at most; log axes."""
    assert findings.average is not None
    x, y = findings.information.information, findings.average.information
    stood = np.zeros(len(x), bool)
    stood[stand_ins(findings)[1]] = True
    shown = drawn_dots(x, y, first=stood)
    return equal_figure(
        x,
        y,
        ("information beside all others, nats", "the same beside random subsets"),
        [
            Dots("sample", shown & ~stood, BLUE),
            Dots("others stand in for it", shown & stood, VERMILION),
        ],
        np.array([plain(str(i)) for i in findings.samples.ids]),
        "id %{text}<br>%{x:.3g} and %{y:.3g} nats",
    )
