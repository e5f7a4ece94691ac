"""Figures of a purification: what falls, what rises, and what decided when to stop."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from datassay.act.purify.result import Purification
from datassay.act.purify.stopping import SMOOTHED
from datassay.commands.purify.job import Foreign, PurifyFindings
from datassay.report.style import BLUE, GREY, INK, SKY, VERMILION, log_ticks, plain, style

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

X_TITLE = "samples removed"
OURS = {"loss": "by loss", "random": "at random", "label_issues": "by label issues"}
Line = tuple[Purification, np.ndarray, str, str]  # values at each point, name, colour


def variance_figure(findings: PurifyFindings) -> Figure:
    """V of what is kept, ours and the rival's, on a logarithmic axis."""
    lines = [(one, one.trace.variance, name, colour) for one, name, colour in _rankings(findings)]
    figure = _curves(findings, lines, "V = %{y:.3g}")
    style(figure, X_TITLE, "variance of influence V (log scale)")
    values = np.concatenate([line[1] for line in lines])
    figure.update_yaxes(type="log", **log_ticks(values[values > 0]))
    return figure


def score_figure(findings: PurifyFindings) -> Figure:
    """Validation score after each step; also that of one source where it can be told apart."""
    lines = [(one, one.trace.validation, name, colour) for one, name, colour in _rankings(findings)]
    if findings.majority:
        ours = findings.purification
        lines.append((ours, ours.trace.test, f"by influence, {findings.majority} alone", SKY))
    figure = _curves(findings, lines, "%{y:.3f}")
    style(figure, X_TITLE, f"validation {findings.metric}")
    return figure


def surprise_figure(findings: PurifyFindings) -> Figure:
    """Each batch's labels under the model refitted without it; the threshold where it decided."""
    import plotly.graph_objects as go

    ours = findings.purification
    x, y = ours.trace.removed[1:], ours.trace.surprise[1:]
    figure = go.Figure()
    _add_batches(figure, x, y, "%{y:.2f} nats")
    if len(y) >= SMOOTHED:
        figure.add_scatter(
            x=x[SMOOTHED - 1 :],
            y=np.convolve(y, np.ones(SMOOTHED) / SMOOTHED, mode="valid"),
            mode="lines",
            name=f"mean of the last {SMOOTHED}",
            line={"color": BLUE, "width": 3},
            hovertemplate="mean up to %{x} removed: %{y:.2f} nats<extra></extra>",
        )
    if math.isfinite(ours.threshold):
        _add_level(figure, ours.threshold, f"threshold {ours.threshold:.2f}", VERMILION, "dash")
    if findings.samples.is_classification:
        guess = math.log(findings.samples.n_classes)
        _add_level(figure, guess, f"blind guess {guess:.2f}", GREY, "dot", side="bottom left")
    _mark_stop(figure, findings)
    style(figure, X_TITLE, "surprise of the batch, nats")
    figure.update_yaxes(rangemode="tozero")
    return figure


def precision_figure(findings: PurifyFindings, truth: Foreign) -> Figure:
    """How much of each batch up to the stop deserved removal, and of all batches so far."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for one, name, colour in _rankings(findings):
        edges = one.trace.removed[: one.steps + 1]
        hits = np.concatenate([[0], np.cumsum(truth.mask[one.removed])])[edges]
        if one is findings.purification:
            _add_batches(figure, edges[1:], np.diff(hits) / np.diff(edges), "%{y:.0%}")
        if len(one.removed):
            figure.add_scatter(
                x=edges[1:],
                y=hits[1:] / edges[1:],
                mode="lines",
                name=f"so far, {name}",
                line={"color": colour, "width": 3 if colour == BLUE else 2},
                hovertemplate="first %{x} removed: %{y:.1%}<extra>%{fullData.name}</extra>",
            )
    base = float(truth.mask.mean())
    _add_level(figure, base, f"at random {100 * base:.0f} %", INK, "dot")
    style(figure, X_TITLE, "share rightly removed")
    figure.update_yaxes(tickformat=".0%", range=[0, 1.04])
    return figure


def _rankings(findings: PurifyFindings) -> list[tuple[Purification, str, str]]:
    ours, rival = findings.purification, findings.rival
    shown = [(ours, OURS.get(ours.order, "by influence"), BLUE)]
    return shown if rival is None else [*shown, (rival, "by loss, same rule", VERMILION)]


def _curves(findings: PurifyFindings, lines: Iterable[Line], value: str) -> Figure:
    """Lines up to the stop, dotted beyond it, where nothing was removed for good."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for purification, y, name, colour in lines:
        x, stop = purification.trace.removed, purification.steps
        shared = {"name": plain(name, 48), "legendgroup": name}
        figure.add_scatter(
            x=x[: stop + 1],
            y=y[: stop + 1],
            mode="lines" if stop else "lines+markers",
            line={"color": colour, "width": 3},
            hovertemplate=f"%{{x}} removed: {value}<extra>%{{fullData.name}}</extra>",
            **shared,
        )
        if len(x) > stop + 1:
            figure.add_scatter(
                x=x[stop:],
                y=y[stop:],
                mode="lines",
                line={"color": colour, "width": 2, "dash": "dot"},
                hovertemplate=f"%{{x}} removed, beyond the stop: {value}"
                "<extra>%{fullData.name}</extra>",
                showlegend=False,
                **shared,
            )
    _mark_stop(figure, findings)
    return figure


def _add_batches(figure: Figure, x: np.ndarray, y: np.ndarray, value: str) -> None:
    figure.add_scatter(
        x=x,
        y=y,
        mode="markers",
        name="one batch",
        marker={"color": GREY, "size": 7},
        hovertemplate=f"batch up to %{{x}} removed: {value}<extra></extra>",
    )


def _mark_stop(figure: Figure, findings: PurifyFindings) -> None:
    edges = findings.purification.trace.removed
    stop = int(edges[findings.purification.steps])
    figure.add_vline(
        x=stop,
        line={"color": INK, "width": 1.5, "dash": "dash"},
        annotation_text=f"stop: {stop:,}",
        annotation_position="top",
        annotation_xanchor="left" if stop < max(1, int(edges[-1])) / 2 else "right",
    )


def _add_level(
    figure: Figure, y: float, text: str, colour: str, dash: str, *, side: str = "top left"
) -> None:
    figure.add_hline(
        y=y,
        line={"color": colour, "width": 1.5, "dash": dash},
        annotation_text=text,
        annotation_position=side,
        annotation_font_size=11.5,
    )
