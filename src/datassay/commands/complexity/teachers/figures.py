"""The figure of sample complexity: every teacher, the medians and the law."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from datassay.commands.complexity.teachers.findings import TeacherFindings
from datassay.report.style import BLUE, GREY, VERMILION, style

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

AXES = {"d": "inputs d", "m": "width m (log scale)", "d·log m": "d · log m"}


def complexity_figure(findings: TeacherFindings) -> Figure:
    """N of each teacher, their medians and the fitted law (S3 Figs 2.8 to 2.10)."""
    import plotly.graph_objects as go

    x, n_opt, medians = findings.x, findings.table.n_opt, findings.medians
    order = np.argsort(x, kind="stable")
    figure = go.Figure()
    # Teachers that were not recovered are no dots.
    recovered = np.isfinite(n_opt)
    across = np.broadcast_to(x[:, None], n_opt.shape)
    figure.add_scatter(
        x=across[recovered], y=n_opt[recovered], mode="markers", name="one teacher",
        marker={"color": GREY, "size": 6, "opacity": 0.5}, text=_names(findings, n_opt)[recovered],
        hovertemplate="%{text}: %{y:,} samples<extra></extra>",
    )  # fmt: skip
    shown = order[np.isfinite(medians[order])]
    figure.add_scatter(
        x=x[shown], y=medians[shown], name="median",
        mode="markers" if findings.varied == "d·log m" else "lines+markers",
        marker={"color": BLUE, "size": 9, "symbol": "diamond"},
        line={"color": BLUE, "width": 1.5},
        text=_names(findings, medians)[shown],
        hovertemplate="%{text}: median %{y:,} samples<extra></extra>",
    )  # fmt: skip
    if findings.law is not None:
        ends = findings.law.size_range
        grid = np.geomspace(*ends, 100)
        figure.add_scatter(
            x=grid, y=findings.law.n_samples(grid), mode="lines",
            name=f"law, R² {findings.law.r_squared:.3f}",
            line={"color": VERMILION, "width": 2, "dash": "dash"}, hoverinfo="skip",
        )  # fmt: skip
    style(figure, AXES[findings.varied], "samples needed N")
    if findings.varied == "m":
        ticks = np.unique(findings.table.width)
        ticks = ticks[:: max(1, len(ticks) // 8)]
        figure.update_xaxes(type="log", tickvals=ticks.tolist(), ticktext=[str(t) for t in ticks])
    figure.update_yaxes(rangemode="tozero")
    figure.update_layout(height=420)
    return figure


def _names(findings: TeacherFindings, like: np.ndarray) -> np.ndarray:
    names = np.array([f"d = {s.n_inputs}, m = {s.width}" for s in findings.table.sizes])
    return names if like.ndim == 1 else np.repeat(names[:, None], like.shape[1], 1)
