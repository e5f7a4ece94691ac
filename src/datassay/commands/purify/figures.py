"""Figures of a purification: what falls, what rises, and what decided when to stop."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from datassay.act.purify.loop import Purification
from datassay.act.purify.stopping import SMOOTHED
from datassay.commands.purify.job import Foreign, PurifyFindings
from datassay.report.plots import chart, level, line, marks
from datassay.report.style import BLUE, GREY, INK, SKY, VERMILION

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

X_TITLE = "samples removed"
OURS = {"loss": "by loss", "random": "at random", "label_issues": "by label issues"}
Line = tuple[Purification, np.ndarray, str, str]  # values at each point, name, colour


def variance_figure(findings: PurifyFindings) -> Figure:
    """V of what is kept, ours and the baseline's, on a logarithmic axis."""
    lines = [(one, one.trace.variance, name, colour) for one, name, colour in _rankings(findings)]
    values = np.concatenate([line[1] for line in lines])
    figure = chart(X_TITLE, "variance of influence V (log scale)", log_y=values)
    return _curves(figure, findings, lines, "V = %{y:.3g}")


def score_figure(findings: PurifyFindings) -> Figure:
    """Validation score after each step; also that of one source where it can be told apart."""
    lines = [(one, one.trace.validation, name, colour) for one, name, colour in _rankings(findings)]
    if findings.majority:
        ours = findings.purification
        lines.append((ours, ours.trace.test, f"by influence, {findings.majority} alone", SKY))
    return _curves(chart(X_TITLE, f"validation {findings.metric}"), findings, lines, "%{y:.3f}")


def surprise_figure(findings: PurifyFindings) -> Figure:
    """Each batch's labels under the model refitted without it; the threshold where it decided."""
    ours = findings.purification
    x, y = ours.trace.removed[1:], ours.trace.surprise[1:]
    figure = chart(X_TITLE, "surprise of the batch, nats")
    _add_batches(figure, x, y, "%{y:.2f} nats")
    if len(y) >= SMOOTHED:
        mean, hover = np.convolve(y, np.ones(SMOOTHED) / SMOOTHED, mode="valid"), "%{y:.2f} nats"
        name, hover = f"mean of the last {SMOOTHED}", f"mean up to %{{x}} removed: {hover}"
        line(figure, x[SMOOTHED - 1 :], mean, name, BLUE, hover + "<extra></extra>", width=3)
    if math.isfinite(ours.threshold):
        _add_level(figure, ours.threshold, f"threshold {ours.threshold:.2f}", VERMILION, "dash")
    if findings.samples.is_classification:
        guess = math.log(findings.samples.n_classes)
        _add_level(figure, guess, f"blind guess {guess:.2f}", GREY, "dot", side="bottom left")
    _mark_stop(figure, findings)
    figure.update_yaxes(rangemode="tozero")
    return figure


def precision_figure(findings: PurifyFindings, truth: Foreign) -> Figure:
    """How much of each batch up to the stop deserved removal, and of all batches so far."""
    figure = chart(X_TITLE, "share rightly removed")
    for one, name, colour in _rankings(findings):
        edges = one.trace.removed[: one.steps + 1]
        hits = np.concatenate([[0], np.cumsum(truth.mask[one.removed])])[edges]
        if one is findings.purification:
            _add_batches(figure, edges[1:], np.diff(hits) / np.diff(edges), "%{y:.0%}")
        if len(one.removed):
            share, width = hits[1:] / edges[1:], 3 if colour == BLUE else 2
            hover = "first %{x} removed: %{y:.1%}"
            line(figure, edges[1:], share, f"so far, {name}", colour, hover, width=width)
    base = float(truth.mask.mean())
    _add_level(figure, base, f"at random {100 * base:.0f} %", INK, "dot")
    figure.update_yaxes(tickformat=".0%", range=[0, 1.04])
    return figure


def _rankings(findings: PurifyFindings) -> list[tuple[Purification, str, str]]:
    ours, rival = findings.purification, findings.rival
    shown = [(ours, OURS.get(ours.order, "by influence"), BLUE)]
    return shown if rival is None else [*shown, (rival, "by loss, same rule", VERMILION)]


def _curves(figure: Figure, findings: PurifyFindings, lines: Iterable[Line], value: str) -> Figure:
    """Lines up to the stop, dotted beyond it, where nothing was removed for good."""
    for purification, y, name, colour in lines:
        x, stop = purification.trace.removed, purification.steps
        mode = "lines" if stop else "lines+markers"
        up_to, beyond = slice(stop + 1), slice(stop, None)
        hover = f"%{{x}} removed: {value}"
        line(figure, x[up_to], y[up_to], name, colour, hover, width=3, mode=mode, legendgroup=name)
        if len(x) > stop + 1:
            hover = f"%{{x}} removed, beyond the stop: {value}"
            line(
                figure, x[beyond], y[beyond], name, colour, hover, dash="dot", legendgroup=name,
                showlegend=False,
            )  # fmt: skip
    _mark_stop(figure, findings)
    return figure


def _add_batches(figure: Figure, x: np.ndarray, y: np.ndarray, value: str) -> None:
    hover = f"batch up to %{{x}} removed: {value}<extra></extra>"
    marks(figure, x, y, "one batch", GREY, hover)


def _mark_stop(figure: Figure, findings: PurifyFindings) -> None:
    edges = findings.purification.trace.removed
    stop = int(edges[findings.purification.steps])
    side = "left" if stop < max(1, int(edges[-1])) / 2 else "right"
    level(figure, x=stop, text=f"stop: {stop:,}", position="top", xanchor=side)


def _add_level(
    figure: Figure, y: float, text: str, colour: str, dash: str, *, side: str = "top left"
) -> None:
    level(figure, y=y, text=text, colour=colour, dash=dash, position=side, font_size=11.5)
