"""What `plot()` of a result draws, and the page of a run."""

from collections.abc import Sequence
from functools import singledispatch
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool

from datassay import stats
from datassay.act.choose.action import REMOVE, REVIEW
from datassay.act.choose.gains import EXPECTED, ActionGain, ActionTable, is_correction_advised
from datassay.act.remove.removal_curve import (
    HIGHEST_FIRST,
    LOWEST_FIRST,
    RANDOM,
    SUSPECTS_FIRST,
    RemovalCurve,
)
from datassay.act.review.gain import COSTS, OUTCOMES, ReviewGain
from datassay.errors import SettingError
from datassay.report.plots import (
    change_chart,
    chart,
    histogram,
    level,
    line,
    log_histogram,
    stack_counts,
)
from datassay.report.style import BLUE, GREY, INK, SKY, VERMILION
from datassay.report.wording import count, in_points
from datassay.results import Plotted, Tabular, columns_of
from datassay.score.label_issues import LabelIssues
from datassay.score.learning_curve import LearningCurve
from datassay.stats import DO, FREE, LEAVE, TRY

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# Largest label scores that are drawn, either way; farther ones are counted at the edge.
FARTHEST_ODDS = 11.5  # log odds of classes
FARTHEST_SCORE = 20.0  # z-scores − 3.5 of targets
CHANCES = (0.0001, 0.01, 0.5, 0.99, 0.9999)  # ticks of the odds' axis
MORE_CHANCES = (0.1, 0.9)  # where it is short
BASELINE_COLOURS = ("#009e73", "#cc79a7", "#b8860b", "#6a5acd", "#8a94a0", "#444444")
MODE_COLOURS = ("#08519c", "#3182bd", "#6baed6", "#9ecae1", "#bdd7e7", "#d0e1ee")
NAMES_OF_ADVICE = {LEAVE: "not shown to help"}
FORECAST = "forecast, not measured"
INSTEAD = "same as relabelling"  # leaves out the same suspects
ADVICE_COLOURS = {
    DO: BLUE, TRY: SKY, INSTEAD: "#b8860b", FREE: "#5f6b76", NAMES_OF_ADVICE[LEAVE]: GREY,
    FORECAST: "#b5bdc6",
    OUTCOMES[DO]: BLUE, OUTCOMES[TRY]: SKY, OUTCOMES[LEAVE]: GREY, COSTS: VERMILION,
}  # fmt: skip
WIDE = 100.0  # largest over smallest value beyond which an axis is logarithmic


@singledispatch
def figure_of(result: Plotted) -> "Figure":
    """Return a histogram of the first column of floats in a result's table."""
    if isinstance(result, Tabular):
        table = result.to_table()
    else:
        table = pa.table({})
    name = next((f.name for f in table.schema if pa.types.is_floating(f.type)), "")
    if name:
        values = table[name].to_numpy()
    else:
        values = np.zeros(0)
    values = values[np.isfinite(values)]
    if not len(values):
        raise SettingError(f"plot needs numbers; this {type(result).__name__} holds none to draw.")
    meaning = columns_of(result).get(name)
    title = name.replace("_", " ") + (f", {meaning.unit}" if meaning and meaning.unit else "")
    figure = chart(title, "rows", showlegend=False)
    if values.min() > 0 and values.max() > WIDE * values.min():
        groups = [("rows", np.ones(len(values), bool), BLUE)]
        return log_histogram(figure, values, groups, "%{y} rows at %{customdata}")
    histogram(figure, values, np.histogram_bin_edges(values, 40))
    return figure


@figure_of.register(ActionTable)
def acts_figure(table: ActionTable) -> "Figure":
    """Return a chart of each action's measured gain with its interval.

    Of samples as they are that make a useless model, R² after each action takes its place.
    """
    measured = [action for action in table.actions if action.is_measured]
    actions = [action for action in measured if action.how != EXPECTED] or measured
    advice = [advice_text(action, table.actions) for action in actions]
    if table.is_useless:
        unchanged = SimpleNamespace(gain=0.0, low=0.0, high=0.0)
        pairs = [(a.words, a) for a in actions] + [("The samples as they are", unchanged)]
        rows = [(words, _shift_change(change, table.score)) for words, change in pairs]
        title = f"{table.metric} after each action; 0 is what the mean of the targets reaches"
        return change_chart(title, rows, 1, [*advice, NAMES_OF_ADVICE[LEAVE]], ADVICE_COLOURS)
    return _plot_gains([(action.words, action) for action in actions], advice, table.metric)


@figure_of.register(ReviewGain)
def review_figure(gain: ReviewGain) -> "Figure":
    """Return a chart of what a review of the labels gained, with its interval."""
    return _plot_gains([("Now against before", gain.rows[0])], [gain.outcome], gain.metric)


def _shift_change(change: Any, score: float) -> SimpleNamespace:
    """Return R² after a change of it, with its interval, from R² before."""
    high = min(1.0, score + change.high)
    return SimpleNamespace(gain=score + change.gain, low=score + change.low, high=high)


def _plot_gains(rows: Sequence[tuple[str, Any]], groups: Sequence[str], metric: str) -> "Figure":
    """Return a chart of each row's gain and interval, coloured by group."""
    scale, unit = 1, metric
    if in_points(metric):
        scale, unit = 100, f"points of {metric}"
    return change_chart(f"gain, {unit}", rows, scale, groups, ADVICE_COLOURS)


def advice_text(action: ActionGain, actions: Sequence[ActionGain]) -> str:
    """Return what to do with one of several actions, as tables and figures name it."""
    if action.kind == REMOVE and action.is_advised and is_correction_advised(actions):
        return INSTEAD
    if action.how == EXPECTED:
        return FORECAST
    if action.is_measured and stats.shows_loss(action.high):
        return COSTS
    return NAMES_OF_ADVICE.get(action.advice, action.advice) or "only screened"


def gains_title(actions: Sequence[ActionGain]) -> str:
    """Return the heading of a table or figure of actions: whether one helps."""
    advice = {action.advice for action in actions if action.how != EXPECTED}
    if DO in advice:
        return "What each action gains"
    if TRY in advice:
        return "What each action may gain: no gain is certain"
    n = sum(action.is_measured and action.how != EXPECTED for action in actions)
    forecasts = [a.kind for a in actions if a.how == EXPECTED and a.advice == TRY]
    if n and forecasts:
        forecast = "the review is" if forecasts[0] == REVIEW else "more samples are"
        return f"Measured: none of {count(n, 'action')} is shown to help; {forecast} a forecast"
    return "What each action gains: none is shown to help"


@figure_of.register(LabelIssues)
def issue_figure(issues: LabelIssues, is_wrong: Bool[np.ndarray, " n"] | None = None) -> "Figure":
    """Return a histogram of label issue scores, split by truth, or else by suspicion."""
    score = np.clip(issues.score, *_choose_range(issues))
    is_odds = issues.posterior is not None
    groups = [("not suspected", ~issues.is_issue, GREY), ("suspected", issues.is_issue, VERMILION)]
    if is_wrong is not None:
        groups = [("label is correct", ~is_wrong, BLUE), ("label is wrong", is_wrong, VERMILION)]
    title = "label issue score (modified z-score − 3.5)"
    if is_odds:
        title = "how likely the label is wrong"
    figure = chart(title, "samples")
    low = float(score.min())
    high = float(score.max())
    if not high - low > 1e-9:  # all are the same, but for rounding
        low = low - 0.5
        high = high + 0.5
    width = (high - low) / 50  # of bins with an edge at 0, so that none straddles the cut-off
    edges = width * np.arange(np.floor(low / width), np.ceil(high / width) + 1)
    stack_counts(figure, score, groups, edges, "%{y} samples near %{x:.2f}")
    if is_odds:
        level(figure, x=0, text="likelier wrong →", position="top right", yanchor="bottom")
        chances = CHANCES
        if edges[-1] - edges[0] < FARTHEST_ODDS:
            chances += MORE_CHANCES
        ticks = [float(np.log(p / (1 - p))) for p in chances]
        texts = [f"{100 * p:g} %" for p in chances]
        figure.update_xaxes(tickvals=ticks, ticktext=texts, tickangle=0)
    return figure


def beyond(issues: LabelIssues) -> int:
    """Count the samples that lie outside the drawn range, which are drawn at its edge."""
    low, high = _choose_range(issues)
    return int(((issues.score < low) | (issues.score > high)).sum())


def _choose_range(issues: LabelIssues) -> tuple[float, float]:
    """Return the ends of the axis of label issue scores."""
    limit = FARTHEST_ODDS
    if issues.posterior is None:
        limit = FARTHEST_SCORE
    return -limit, limit


@figure_of.register(LearningCurve)
def modes_figure(curve: LearningCurve) -> "Figure":
    """Return a chart of the squared residual left at each training step, by group of modes."""
    hover = "step %{x:.3g}: %{y:.1%} left"
    titles = "training steps", "share of squared residual left"
    figure = chart(*titles, log_x=curve.steps, height=400)
    for i, (name, residual) in enumerate(zip(curve.groups, curve.residual, strict=True)):
        line(figure, curve.steps, residual, name, MODE_COLOURS[min(i, 5)], hover)
    line(figure, curve.steps, curve.total, "all modes", INK, hover, width=3.5)
    figure.update_yaxes(tickformat=".0%", range=[0, 1.03])
    return figure


@figure_of.register(RemovalCurve)
def removal_figure(curve: RemovalCurve) -> "Figure":
    """Return a chart of retrained networks' score by share removed; bars: deviation of seeds."""
    figure = chart(
        "training samples removed, %", f"validation {curve.metric}", height=440, showlegend=True
    )
    ours = {LOWEST_FIRST: BLUE, HIGHEST_FIRST: VERMILION, SUSPECTS_FIRST: SKY}
    baselines = [r for r in curve.rankings if r not in {*ours, RANDOM}]
    for name, score in zip(curve.rankings, curve.score, strict=True):  # [fractions, seeds]
        colour = ours.get(name, INK)
        width = 3.0 if name in ours else 2.0
        if name in baselines:
            colour = BASELINE_COLOURS[baselines.index(name) % len(BASELINE_COLOURS)]
            width = 1.5
        deviation = None
        if score.shape[1] > 1:
            deviation = score.std(axis=1, ddof=1)
        line(
            figure, 100 * curve.fractions, score.mean(axis=1), name, colour,
            "%{x:.0f} % removed: %{y:.3f}", width=width, mode="lines+markers", limit=40,
            dash="dash" if name == RANDOM else None, marker={"size": 4 + width},
            opacity=1.0 if width > 2 else 0.75,
            error_y={"array": deviation, "thickness": 1, "width": 2},
        )  # fmt: skip
    figure.update_xaxes(range=[-2, 100 * curve.fractions.max() + 2])
    return figure
