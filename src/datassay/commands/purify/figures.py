"""Figures of a purification: what falls, what rises, and what told when to stop."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from datassay.act.purify.result import Purification
from datassay.act.purify.stopping import SMOOTHED
from datassay.commands.purify.findings import Foreign, PurifyFindings, foreign
from datassay.report.style import BLUE, GREY, INK, SKY, VERMILION, log_ticks, plain, style

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

X_TITLE = "samples removed"
OURS, RIVAL = "by influence", "by loss, same rule"


def purify_figures(findings: PurifyFindings) -> dict[str, tuple[str, str]]:
    """All the figures that these findings can fill.

    Args:
        findings: one purification.

    Returns:
        Figure name → (plotly JSON, what it shows for who cannot see it).
    """
    drawn = {
        "variance": (
            variance_figure(findings),
            "Variance of influence against samples removed, with the stopping point",
        ),
        "score": (
            score_figure(findings),
            f"Validation {findings.metric} against samples removed, with the stopping point",
        ),
        "surprise": (
            surprise_figure(findings),
            "Surprise of each removed batch under the model refitted without it, and the threshold",
        ),
    }
    truth = foreign(findings)
    if truth is not None and len(findings.found.trace.removed) > 1 and findings.found.steps:
        text = f"Share of {truth.many} in each removed batch"
        drawn["precision"] = (precision_figure(findings, truth), text)
    return {name: (str(figure.to_json()), text) for name, (figure, text) in drawn.items()}


def variance_figure(findings: PurifyFindings) -> Figure:
    """V of what is kept, ours and the rival's, on a logarithmic axis.

    Args:
        findings: one purification.

    Returns:
        The figure.
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    for found, name, colour in _rankings(findings):
        x, y = found.trace.removed, found.trace.variance
        _add_trace(figure, x, y, found.steps, name, colour, "%{x} removed: V = %{y:.3g}")
    _mark_stop(figure, findings)
    style(figure, X_TITLE, "variance of influence V (log scale)")
    values = np.concatenate([f.trace.variance for f, _, _ in _rankings(findings)])
    figure.update_yaxes(type="log", **log_ticks(values[values > 0]))
    return figure


def score_figure(findings: PurifyFindings) -> Figure:
    """Validation score of the model refitted after each step.

    Args:
        findings: one purification.

    Returns:
        The figure; a second line where the validation samples of one source can be told apart.
    """
    import plotly.graph_objects as go

    figure, metric = go.Figure(), findings.metric
    for found, name, colour in _rankings(findings):
        x, y = found.trace.removed, found.trace.validation
        _add_trace(figure, x, y, found.steps, name, colour, "%{x} removed: %{y:.3f}")
    if findings.majority:
        found = findings.found
        name = f"by influence, {findings.majority} alone"
        _add_trace(
            figure, found.trace.removed, found.trace.test, found.steps, name, SKY,
            "%{x} removed: %{y:.3f}",
        )  # fmt: skip
    _mark_stop(figure, findings)
    style(figure, X_TITLE, f"validation {metric}")
    return figure


def surprise_figure(findings: PurifyFindings) -> Figure:
    """What the stopping rule saw: the labels of each batch under the model that never saw them.

    Args:
        findings: one purification.

    Returns:
        The figure; the threshold stands in it where the rule "held_out" decided.
    """
    import plotly.graph_objects as go

    found = findings.found
    x, y = found.trace.removed[1:], found.trace.surprise[1:]
    figure = go.Figure()
    figure.add_scatter(
        x=x,
        y=y,
        mode="markers",
        name="one batch",
        marker={"color": GREY, "size": 7},
        hovertemplate="batch up to %{x} removed: %{y:.2f} nats<extra></extra>",
    )
    if len(y) >= SMOOTHED:
        mean = np.convolve(y, np.ones(SMOOTHED) / SMOOTHED, mode="valid")
        figure.add_scatter(
            x=x[SMOOTHED - 1 :],
            y=mean,
            mode="lines",
            name=f"mean of the last {SMOOTHED}",
            line={"color": BLUE, "width": 3},
            hovertemplate="mean up to %{x} removed: %{y:.2f} nats<extra></extra>",
        )
    if math.isfinite(found.threshold):
        label = f"threshold {found.threshold:.2f}"
        _level(figure, found.threshold, label, VERMILION, "dash")
    if findings.samples.is_classification:
        guess = math.log(findings.samples.n_classes)
        _level(figure, guess, f"blind guess {guess:.2f}", GREY, "dot", above=False)
    _mark_stop(figure, findings)
    style(figure, X_TITLE, "surprise of the batch, nats")
    figure.update_yaxes(rangemode="tozero")
    return figure


def precision_figure(findings: PurifyFindings, truth: Foreign) -> Figure:
    """How much of each batch deserved removal, where that is known.

    Args:
        findings: one purification that removed something.
        truth: which samples are foreign.

    Returns:
        The figure: batches up to the stop, and the share over all of them so far.
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    found = findings.found
    edges = found.trace.removed[: found.steps + 1]
    hits = np.concatenate([[0], np.cumsum(truth.mask[found.removed])])[edges]
    figure.add_scatter(
        x=edges[1:],
        y=np.diff(hits) / np.diff(edges),
        mode="markers",
        name="one batch",
        marker={"color": GREY, "size": 7},
        hovertemplate="batch up to %{x} removed: %{y:.0%}<extra></extra>",
    )
    for found, name, colour in _rankings(findings):
        if len(found.removed):
            edges = found.trace.removed[: found.steps + 1]
            hits = np.cumsum(truth.mask[found.removed])[edges[1:] - 1]
            figure.add_scatter(
                x=edges[1:],
                y=hits / edges[1:],
                mode="lines",
                name=f"so far, {name}",
                line={"color": colour, "width": 3 if colour == BLUE else 2},
                hovertemplate="first %{x} removed: %{y:.1%}<extra>%{fullData.name}</extra>",
            )
    base = float(truth.mask.mean())
    _level(figure, base, f"at random {100 * base:.0f} %", INK, "dot")
    style(figure, X_TITLE, "share rightly removed")
    figure.update_yaxes(tickformat=".0%", range=[0, 1.04])
    return figure


def _rankings(findings: PurifyFindings) -> list[tuple[Purification, str, str]]:
    ours = {"loss": "by loss", "random": "at random"}.get(findings.found.order, OURS)
    shown = [(findings.found, ours, BLUE)]
    return shown if findings.rival is None else [*shown, (findings.rival, RIVAL, VERMILION)]


def _add_trace(
    figure: Figure,
    x: np.ndarray,
    y: np.ndarray,
    stop: int,
    name: str,
    colour: str,
    hover: str,
) -> None:
    """A line up to the stop, dotted beyond it, where nothing was removed for good."""
    shared = {"mode": "lines", "name": plain(name, 48), "legendgroup": name}
    hover += "<extra>%{fullData.name}</extra>"
    figure.add_scatter(
        x=x[: stop + 1],
        y=y[: stop + 1],
        line={"color": colour, "width": 3},
        hovertemplate=hover,
        **(shared | ({"mode": "lines+markers"} if stop == 0 else {})),
    )
    if len(x) > stop + 1:
        figure.add_scatter(
            x=x[stop:],
            y=y[stop:],
            line={"color": colour, "width": 2, "dash": "dot"},
            hovertemplate=hover.replace("%{x} removed", "%{x} removed, beyond the stop"),
            showlegend=False,
            **shared,
        )


def _mark_stop(figure: Figure, findings: PurifyFindings) -> None:
    stop = int(findings.found.trace.removed[findings.found.steps])
    last = max(1, int(findings.found.trace.removed[-1]))
    figure.add_vline(x=stop, line={"color": INK, "width": 1.5, "dash": "dash"})
    figure.add_annotation(
        x=stop,
        y=1,
        yref="paper",
        yanchor="bottom",
        text=f"stop: {stop:,}",
        showarrow=False,
        xanchor="left" if stop < last / 2 else "right",
    )


def _level(
    figure: Figure, y: float, text: str, colour: str, dash: str, *, above: bool = True
) -> None:
    figure.add_hline(y=y, line={"color": colour, "width": 1.5, "dash": dash})
    figure.add_annotation(
        x=0,
        xref="paper",
        xanchor="left",
        y=y,
        yanchor="bottom" if above else "top",
        text=text,
        showarrow=False,
        font={"size": 11.5},
    )
