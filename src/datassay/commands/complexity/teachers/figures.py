"""The figure of sample complexity: every teacher, the medians and the law."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from datassay.commands.complexity.teachers.findings import TeacherFindings
from datassay.report.plots import chart, line, marks
from datassay.report.style import BLUE, GREY, VERMILION

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

AXES = {"d": "inputs d", "m": "width m (log scale)", "d·log m": "d · log m"}


def complexity_figure(findings: TeacherFindings) -> Figure:
    """N of each teacher, their medians and the fitted law (S3 Figs 2.8 to 2.10)."""
    x, n_opt, medians = findings.x, findings.table.n_opt, findings.medians
    order = np.argsort(x, kind="stable")
    figure = chart(AXES[findings.varied], "samples needed N", height=420)
    # Teachers that were not recovered are no dots.
    recovered = np.isfinite(n_opt)
    across = np.broadcast_to(x[:, None], n_opt.shape)[recovered]
    hover, texts = "%{text}: %{y:,} samples<extra></extra>", _names(findings, n_opt)[recovered]
    look = {"size": 6, "opacity": 0.5, "text": texts}
    marks(figure, across, n_opt[recovered], "one teacher", GREY, hover, **look)
    shown = order[np.isfinite(medians[order])]
    line(
        figure, x[shown], medians[shown], "median", BLUE, hover.replace(": %", ": median %", 1),
        width=1.5, mode="markers" if findings.varied == "d·log m" else "lines+markers",
        marker={"color": BLUE, "size": 9, "symbol": "diamond"},
        text=_names(findings, medians)[shown],
    )  # fmt: skip
    if findings.law is not None:
        grid = np.geomspace(*findings.law.size_range, 100)
        name, values = f"law, R² {findings.law.r_squared:.3f}", findings.law.n_samples(grid)
        line(figure, grid, values, name, VERMILION, dash="dash")
    if findings.varied == "m":
        ticks = np.unique(findings.table.width)
        ticks = ticks[:: max(1, len(ticks) // 8)]
        figure.update_xaxes(type="log", tickvals=ticks.tolist(), ticktext=[str(t) for t in ticks])
    figure.update_yaxes(rangemode="tozero")
    return figure


def _names(findings: TeacherFindings, like: np.ndarray) -> np.ndarray:
    names = np.array([f"d = {s.n_inputs}, m = {s.width}" for s in findings.table.sizes])
    return names if like.ndim == 1 else np.repeat(names[:, None], like.shape[1], 1)
