"""The page's figures, as plotly draws them."""

from __future__ import annotations

import html
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from datassay.report.advice import wrong_labels
from datassay.report.findings import HIGHEST_FIRST, LOWEST_FIRST, RANDOM, Findings

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

INK, QUIET, RULE = "#1f2933", "#5f6b7a", "#e3e7ec"
BLUE, VERMILION, GREY = "#0072b2", "#d55e00", "#8a94a0"
# Tol's "muted" scheme, safe for colour-blind readers, and a grey for what is merged.
CLASS_COLOURS = (
    "#332288", "#88ccee", "#117733", "#ddcc77", "#cc6677",
    "#44aa99", "#882255", "#999933", "#aa4499", "#6f7782",
)  # fmt: skip
RIVAL_COLOURS = ("#009e73", "#cc79a7", "#b8860b", "#6a5acd", "#8a94a0", "#444444")
MAX_NAME = 28
SMALLEST_SHARE = 1e-12


def plain(text: str, limit: int = MAX_NAME) -> str:
    """A user's text for plotly, which reads pseudo-HTML in names and labels.

    Args:
        text: any text.
        limit: how many characters to keep.

    Returns:
        The text, cut and with &, < and > as entities.
    """
    text = " ".join(text.split())
    return html.escape(text if len(text) <= limit else text[: limit - 1] + "…", quote=False)


def information_figure(findings: Findings) -> Figure:
    """Histogram of information on a logarithmic axis, stacked by class.

    Args:
        findings: one run's results.

    Returns:
        The figure; samples below 1e-12 of the largest information are counted in the first bin.
    """
    import plotly.graph_objects as go

    exponents = np.log10(_above_floor(findings.information.information))
    edges = np.linspace(*_range(exponents), 41)
    centres, width = (edges[1:] + edges[:-1]) / 2, edges[1] - edges[0]
    ranges = [f"{10**a:.2g} to {10**b:.2g}" for a, b in pairwise(edges)]
    figure = go.Figure()
    for colour, (name, inside) in zip(CLASS_COLOURS, _class_groups(findings), strict=False):
        figure.add_bar(
            x=centres,
            y=np.histogram(exponents[inside], edges)[0],
            width=width,
            name=plain(name),
            customdata=ranges,
            marker={"color": colour, "line": {"width": 0}},
            hovertemplate="%{y} samples at %{customdata} nats<extra>%{fullData.name}</extra>",
        )
    _style(figure, "information, nats", "samples")
    low, high = int(np.ceil(edges[0])), int(np.floor(edges[-1]))
    ticks, texts = _decades(low, high)
    figure.update_xaxes(tickvals=ticks, ticktext=texts)
    figure.update_layout(barmode="stack", showlegend=findings.samples.is_classification)
    return figure


def _above_floor(values: np.ndarray) -> np.ndarray:
    top = float(values.max())
    return np.maximum(values, top * SMALLEST_SHARE) if top > 0 else np.ones_like(values)


def _range(values: np.ndarray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    return (low, high) if high - low > 1e-9 else (low - 0.5, high + 0.5)


def _class_groups(findings: Findings) -> list[tuple[str, np.ndarray]]:
    """Name and mask of at most ten groups: the classes, the smallest ones merged."""
    samples = findings.samples
    if not samples.is_classification:
        return [("all samples", np.ones(len(samples), bool))]
    classes = np.arange(samples.n_classes)
    if len(classes) > len(CLASS_COLOURS):
        sizes = np.bincount(samples.y, minlength=samples.n_classes)
        classes = np.sort(np.argsort(-sizes, kind="stable")[: len(CLASS_COLOURS) - 1])
    groups = [(samples.class_names[c], samples.y == c) for c in classes]
    if len(classes) < samples.n_classes:
        rest = ~np.isin(samples.y, classes)
        groups.append((f"{samples.n_classes - len(classes)} other classes", rest))
    return groups


def _decades(low: int, high: int) -> tuple[list[int], list[str]]:
    """Whole exponents from low to high, about eight at most, and how to print them."""
    ticks = list(range(low, high + 1, max(1, (high - low + 6) // 7)))
    return ticks, [f"10<sup>{str(k).replace('-', '−')}</sup>" for k in ticks]


def _log_ticks(values: np.ndarray) -> dict:
    """Tick settings of a log axis; plotly's own where no two decades are spanned."""
    low, high = float(np.log10(values.min())), float(np.log10(values.max()))
    ticks, texts = _decades(int(np.ceil(low - 1e-9)), int(np.floor(high + 1e-9)))
    if len(ticks) < 2:
        return {"nticks": 5}
    return {"tickvals": [10.0**k for k in ticks], "ticktext": texts}


def issue_figure(findings: Findings) -> Figure:
    """Histogram of label issue scores with the cut-off, split by truth where it is known.

    Args:
        findings: one run's results.

    Returns:
        The figure.
    """
    import plotly.graph_objects as go

    score, wrong = findings.issues.score, wrong_labels(findings.samples)
    if wrong is None:
        groups = [("not suspected", score <= 0, GREY), ("suspected", score > 0, VERMILION)]
    else:
        groups = [("label is correct", ~wrong, BLUE), ("label is wrong", wrong, VERMILION)]
    low, high = _range(score)
    # An edge at 0, so that no bar straddles the cut-off.
    width = (high - low) / 50
    edges = width * np.arange(np.floor(low / width), np.ceil(high / width) + 1)
    figure = go.Figure()
    for name, inside, colour in groups:
        figure.add_bar(
            x=(edges[1:] + edges[:-1]) / 2,
            y=np.histogram(score[inside], edges)[0],
            width=width,
            name=name,
            marker={"color": colour, "line": {"width": 0}},
            hovertemplate="%{y} samples near %{x:.2f}<extra>%{fullData.name}</extra>",
        )
    figure.add_vline(x=0, line={"color": INK, "width": 1.5, "dash": "dash"})
    figure.add_annotation(
        x=0,
        y=1,
        yref="paper",
        yanchor="bottom",
        text="suspected →",
        showarrow=False,
        xanchor="left",
    )
    _style(figure, "label issue score (suspected above 0)", "samples")
    figure.update_layout(barmode="stack")
    return figure


def spectrum_figure(findings: Findings) -> Figure:
    """The kernel's eigenvalues, log-log.

    Args:
        findings: one run's results.

    Returns:
        The figure, at most about 300 points, log-spaced in the index.
    """
    import plotly.graph_objects as go

    values = findings.learning_curve.eigenvalues
    values = values[values > 0]
    index = np.unique(np.geomspace(1, max(len(values), 1), 300).round().astype(int))
    index = index[index <= len(values)]
    figure = go.Figure()
    figure.add_scatter(
        x=index,
        y=values[index - 1],
        mode="lines+markers",
        line={"color": BLUE, "width": 1.5},
        marker={"color": BLUE, "size": 4},
        hovertemplate="mode %{x}: %{y:.3g}<extra></extra>",
    )
    _style(figure, "mode", "eigenvalue of the kernel")
    figure.update_layout(showlegend=False)
    figure.update_xaxes(type="log", **_log_ticks(index))
    figure.update_yaxes(type="log", **_log_ticks(values))
    return figure


def modes_figure(findings: Findings) -> Figure:
    """The predicted share of the residual that is left, by band of modes and in all.

    Args:
        findings: one run's results.

    Returns:
        The figure.
    """
    import plotly.graph_objects as go

    curve = findings.learning_curve
    figure = go.Figure()
    colours = ("#08519c", "#3182bd", "#6baed6", "#9ecae1", "#bdd7e7", "#d0e1ee")
    for position, (name, left) in enumerate(zip(curve.groups, curve.residual, strict=True)):
        figure.add_scatter(
            x=curve.steps,
            y=left,
            mode="lines",
            name=plain(name),
            line={"color": colours[min(position, len(colours) - 1)], "width": 2},
            hovertemplate="step %{x:.3g}: %{y:.1%} left<extra>%{fullData.name}</extra>",
        )
    figure.add_scatter(
        x=curve.steps,
        y=curve.total,
        mode="lines",
        name="all modes",
        line={"color": INK, "width": 3.5},
        hovertemplate="step %{x:.3g}: %{y:.1%} left<extra>%{fullData.name}</extra>",
    )
    _style(figure, "training steps", "share of squared residual left")
    figure.update_xaxes(type="log", **_log_ticks(curve.steps))
    figure.update_yaxes(tickformat=".0%", range=[0, 1.03])
    figure.update_layout(height=400)
    return figure


def removal_figure(findings: Findings) -> Figure:
    """Score of retrained networks against the fraction removed, one line a ranking.

    Args:
        findings: one run's results; its removal curve must be there.

    Returns:
        The figure; error bars are one standard deviation over seeds.
    """
    import plotly.graph_objects as go

    curve = findings.removal_curve
    assert curve is not None, "the page draws this figure only where the curve was measured"
    figure, rivals = go.Figure(), 0
    spread = curve.score.std(axis=2, ddof=1 if curve.score.shape[2] > 1 else 0)
    for name, mean, error in zip(curve.rankings, curve.score.mean(axis=2), spread, strict=True):
        line = _line(name, rivals)
        rivals += name not in {LOWEST_FIRST, HIGHEST_FIRST, RANDOM}
        figure.add_scatter(
            x=100 * curve.fractions,
            y=mean,
            mode="lines+markers",
            name=plain(name, 40),
            line=line,
            marker={"size": 4 + line["width"]},
            opacity=1.0 if line["width"] > 2 else 0.75,
            error_y={"array": error, "thickness": 1, "width": 2},
            hovertemplate="%{x:.0f} % removed: %{y:.3f}<extra>%{fullData.name}</extra>",
        )
    _style(figure, "training samples removed, %", f"validation {curve.metric}")
    figure.update_layout(height=440)
    figure.update_xaxes(range=[-2, 100 * curve.fractions.max() + 2])
    return figure


def _line(ranking: str, n_rivals: int) -> dict:
    ours = {LOWEST_FIRST: BLUE, HIGHEST_FIRST: VERMILION}
    if ranking in ours:
        return {"color": ours[ranking], "width": 3}
    if ranking == RANDOM:
        return {"color": INK, "width": 2, "dash": "dash"}
    return {"color": RIVAL_COLOURS[n_rivals % len(RIVAL_COLOURS)], "width": 1.5}


def _style(figure: Figure, x_title: str, y_title: str) -> None:
    figure.update_layout(
        template="none",
        height=360,
        margin={"l": 58, "r": 12, "t": 24, "b": 48},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 12.5, "color": INK},
        hoverlabel={"font": {"family": "system-ui, sans-serif"}},
        legend={
            "orientation": "h",
            "yanchor": "top",
            "y": -0.2,
            "x": 0,
            "xanchor": "left",
            "traceorder": "normal",
        },
        bargap=0,
    )
    axis: dict = {"gridcolor": RULE, "zeroline": False, "linecolor": QUIET, "ticks": "outside"}
    axis |= {"tickcolor": QUIET, "title_standoff": 8}
    figure.update_xaxes(title_text=x_title, showgrid=False, showline=True, **axis)
    figure.update_yaxes(title_text=y_title, automargin=True, **axis)


def figures(findings: Findings) -> dict[str, tuple[str, str]]:
    """All the figures that these findings can fill.

    Args:
        findings: one run's results.

    Returns:
        Figure name → (plotly JSON, what it shows for who cannot see it).
    """
    drawn: dict[str, tuple[Figure, str]] = {
        "information": (information_figure(findings), "Histogram of information by class"),
        "issues": (issue_figure(findings), "Histogram of label issue scores"),
        "spectrum": (spectrum_figure(findings), "Eigenvalues of the kernel by mode"),
        "modes": (modes_figure(findings), "Predicted residual left against training steps"),
    }
    if findings.removal_curve is not None:
        told: Sequence[str] = [plain(r) for r in findings.removal_curve.rankings]
        text = "Score against fraction removed, by ranking: " + ", ".join(told)
        drawn["removal"] = (removal_figure(findings), html.unescape(text))
    return {name: (str(figure.to_json()), text) for name, (figure, text) in drawn.items()}
