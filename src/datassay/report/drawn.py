"""What `plot()` of a result draws."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from datassay.act.choose.compare import ActionTable
from datassay.act.remove.removal_curve import RemovalCurve
from datassay.errors import SettingError
from datassay.report.plots import chart, histogram, level, line, log_histogram, marks, stacked
from datassay.report.style import BLUE, CLASS_COLOURS, GREY, INK, VERMILION, plain
from datassay.report.wording import in_points
from datassay.results import Plotted, Tabular, columns_of
from datassay.score.label_issues import LabelIssues
from datassay.score.learning_curve import LearningCurve

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

WIDE = 100.0  # largest over smallest value beyond which an axis is logarithmic


@singledispatch
def figure_of(result: Plotted) -> Figure:
    """How the first column of floats is spread over the rows."""
    table = result.to_table() if isinstance(result, Tabular) else pa.table({})
    name = next((f.name for f in table.schema if pa.types.is_floating(f.type)), "")
    values = table[name].to_numpy() if name else np.zeros(0)
    values = values[np.isfinite(values)]
    if not len(values):
        raise SettingError(f"plot needs numbers; this {type(result).__name__} holds none to draw.")
    about = columns_of(result).get(name)
    title = name.replace("_", " ") + (f", {about.unit}" if about and about.unit else "")
    figure = chart(title, "rows", showlegend=False)
    if values.min() > 0 and values.max() > WIDE * values.min():
        groups = [("rows", np.ones(len(values), bool), BLUE)]
        return log_histogram(figure, values, groups, "%{y} rows at %{customdata}")
    histogram(figure, values, np.histogram_bin_edges(values, 40))
    return figure


@figure_of.register(LabelIssues)
def _of_labels(issues: LabelIssues) -> Figure:
    """The score of each label; right of the line it is suspected."""
    score = np.clip(issues.score, *np.quantile(issues.score, [0.001, 0.999]))
    figure = chart("label issue score", "samples", showlegend=True)
    groups = [("not suspected", ~issues.is_issue, GREY), ("suspected", issues.is_issue, VERMILION)]
    edges = np.linspace(min(score.min(), -1.0), max(score.max(), 1.0), 51)
    stacked(figure, score, groups, edges, "%{y} samples near %{x:.2f}")
    level(figure, x=0)
    return figure


@figure_of.register(RemovalCurve)
def _of_removal(curve: RemovalCurve) -> Figure:
    """Mean score over seeds against the share removed, a line per ranking."""
    figure = chart("training samples removed, %", f"validation {curve.metric}", showlegend=True)
    for k, name in enumerate(curve.rankings):
        colour = CLASS_COLOURS[k % len(CLASS_COLOURS)]
        line(figure, 100 * curve.fractions, curve.score[k].mean(axis=1), name, colour,
             "%{x:.0f} % removed: %{y:.3f}", mode="lines+markers")  # fmt: skip
    return figure


@figure_of.register(LearningCurve)
def _of_learning(curve: LearningCurve) -> Figure:
    """The share of the residual that is left against training steps, by band of modes."""
    titles = "training steps", "share of squared residual left"
    figure, hover = chart(*titles, log_x=curve.steps), "step %{x:.3g}: %{y:.1%} left"
    for k, (name, left) in enumerate(zip(curve.groups, curve.residual, strict=True)):
        line(figure, curve.steps, left, name, CLASS_COLOURS[k % len(CLASS_COLOURS)], hover)
    line(figure, curve.steps, curve.total, "all modes", INK, hover, width=3.5)
    return figure


@figure_of.register(ActionTable)
def _of_actions(table: ActionTable) -> Figure:
    """What each action gains, with its 95 % interval, the best on top."""
    actions = [action for action in table.actions if np.isfinite(action.low)][::-1]
    scale, unit = (100, "points of ") if in_points(table.metric) else (1, "")
    gain, low, high = (
        scale * np.array([getattr(act, name) for act in actions])
        for name in ("gain", "low", "high")
    )
    figure = chart(f"gain over the samples as they are, {unit}{table.metric}", showlegend=False)
    error = {"array": high - gain, "arrayminus": gain - low}
    names = [plain(act.words, 60) for act in actions]
    marks(figure, gain, names, "", BLUE, "%{y}: %{x:.2f}", size=10, error_x=error)
    level(figure, x=0)
    return figure
