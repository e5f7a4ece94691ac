"""Charts of plotly in the page's look: an empty one, and what is drawn on it."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from datassay.report.style import BLUE, GREY, INK, decades, log_ticks, plotly_text
from datassay.report.style import layout as look_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

CHANGE_HOVER = "%{x:.3g} (%{customdata[0]:.3g} to %{customdata[1]:.3g})"
LEGEND = "<extra>%{fullData.name}</extra>"  # the name behind what a hover says
LEGEND_DISTANCE = 58  # pixels from the plot to the legend, below the ticks and the axis title
Colour = str | list[str]
Group = tuple[str, np.ndarray, str]
"""What is drawn alike: its name in the legend, [n] bool which values, and its colour."""


def chart(
    x_title: str = "",
    y_title: str = "",
    *,
    log_x: np.ndarray | None = None,
    log_y: np.ndarray | None = None,
    **layout: Any,
) -> "Figure":
    """Return an empty chart; logarithmic axes take their ticks from the positive values given."""
    import plotly.graph_objects as go

    look = look_of(x_title, y_title)
    # In parts of the plot's height, beside which the axis and the legend take about 120 pixels.
    look["legend"]["y"] = -LEGEND_DISTANCE / max(layout.get("height", look["height"]) - 120, 60)
    figure = go.Figure(layout=look)
    figure.update_layout(**layout)
    for update, values in ((figure.update_xaxes, log_x), (figure.update_yaxes, log_y)):
        if values is not None:
            positive = values[values > 0]
            update(type="log", **(log_ticks(positive) if len(positive) else {}))
    return figure


def line(
    figure: "Figure",
    x: Any,
    y: Any,
    name: str = "",
    colour: str = BLUE,
    hover: str = "",
    *,
    width: float = 2,
    dash: str | None = None,
    mode: str = "lines",
    limit: int = 48,
    **more: Any,
) -> None:
    """Draw a line; "%{x}" and "%{y}" in `hover` are its values. An empty `hover` shows none."""
    stroke = {"color": colour, "width": width, "dash": dash}
    look = {"mode": mode, "line": stroke, **more}
    figure.add_scatter(x=x, y=y, **(_make_labels(name, hover, limit) | look))


def marks(
    figure: "Figure",
    x: Any,
    y: Any,
    name: str = "",
    colour: Colour = BLUE,
    hover: str = "",
    *,
    size: Any = 7,
    symbol: str | None = None,
    opacity: float | None = None,
    mode: str = "markers",
    limit: int = 48,
    **more: Any,
) -> None:
    """Draw one mark per value; `hover` as in `line`."""
    style = {"color": colour, "size": size, "symbol": symbol, "opacity": opacity}
    style = {key: value for key, value in style.items() if value is not None}
    look = {"mode": mode, "marker": style, **more}
    figure.add_scatter(x=x, y=y, **(_make_labels(name, hover, limit) | look))


def bars(
    figure: "Figure",
    x: Any,
    y: Any,
    name: str = "",
    colour: Colour = BLUE,
    hover: str = "",
    *,
    edge: str | None = None,
    limit: int = 48,
    **more: Any,
) -> None:
    """Draw bars; `edge` is the colour of a thin line around each."""
    if edge:
        rim = {"width": 1, "color": edge}
    else:
        rim = {"width": 0}
    look = {"marker": {"color": colour, "line": rim}, **more}
    figure.add_bar(x=x, y=y, **(_make_labels(name, hover, limit) | look))


def level(
    figure: "Figure",
    *,
    x: float | None = None,
    y: float | None = None,
    text: str = "",
    colour: str = INK,
    dash: str | None = "dash",
    width: float = 1.5,
    **annotation: Any,
) -> None:
    """Draw a horizontal line at y, or a vertical one at x, with a text beside it."""
    stroke = {"color": colour, "width": width, "dash": dash}
    words = {f"annotation_{key}": value for key, value in annotation.items()}
    if text:
        words |= {"annotation_text": text}
    if x is not None:
        figure.add_vline(x=x, line=stroke, **words)
    else:
        figure.add_hline(y=y, line=stroke, **words)


def histogram(
    figure: "Figure",
    values: np.ndarray,
    edges: np.ndarray,
    name: str = "",
    colour: str = BLUE,
    hover: str = "about %{x:.3g}: %{y:,}",
    **more: Any,
) -> None:
    """Draw counts of values between edges, no empty bins; end bins count what lies beyond."""
    counts = np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0]
    bins = np.flatnonzero(counts)
    middle = (edges[1:] + edges[:-1]) / 2
    width = np.diff(edges)
    bars(figure, middle[bins], counts[bins], name, colour, hover, width=width[bins], **more)


def stack_counts(
    figure: "Figure",
    values: np.ndarray,
    groups: Sequence[Group],
    edges: np.ndarray,
    hover: str,
    **more: Any,
) -> None:
    """Draw each group's counts of values between equidistant edges, stacked."""
    middle = (edges[1:] + edges[:-1]) / 2
    width = edges[1] - edges[0]
    for name, is_in_group, colour in groups:
        counts = np.histogram(values[is_in_group], edges)[0]
        bars(figure, middle, counts, name, colour, hover, width=width, limit=40, **more)
    figure.update_layout(barmode="stack")


def log_histogram(
    figure: "Figure", values: np.ndarray, groups: Sequence[Group], hover: str
) -> "Figure":
    """Draw a histogram on a logarithmic axis, of values down to 1e-12 of the largest."""
    top = float(values.max())
    exponents = np.zeros(len(values))
    if top > 0:
        exponents = np.log10(np.maximum(values, top * 1e-12))
    low = float(exponents.min())
    high = float(exponents.max())
    if not high - low > 1e-9:  # all are the same, but for rounding
        low = low - 0.5
        high = high + 0.5
    edges = np.linspace(low, high, 41)
    ranges = [f"{10**a:.2g} to {10**b:.2g}" for a, b in pairwise(edges)]
    stack_counts(figure, exponents, groups, edges, hover, customdata=ranges)
    ticks, texts = decades(int(np.ceil(edges[0])), int(np.floor(edges[-1])))
    figure.update_xaxes(tickvals=ticks, ticktext=texts)
    return figure


def change_chart(
    title: str,
    rows: Sequence[tuple[str, Any]],
    scale: float,
    groups: Sequence[str] = (),
    colours: Mapping[str, str] | None = None,
) -> "Figure":
    """Return a chart of changes with their intervals, the first on top, each below its name.

    Args:
        title: of the axis, with its unit.
        rows: name and change, with `gain`, `low` and `high`; the widest may exceed the axis.
        scale: times which they are drawn.
        groups: of each row, for the legend; (): no legend, and the first row stands out.
        colours: of the groups, in the legend's order.
    """
    n = len(rows)
    names = [name for name, _ in rows]
    changes = [(change.gain, change.low, change.high) for _, change in rows]
    gain, low, high = scale * np.array(changes).reshape(n, 3).T
    height = np.arange(n)[::-1]
    lowest, highest = _choose_range(gain, low, high)
    if (low < lowest).any() or (high > highest).any():
        title += "<br>longer intervals go on beyond the axis"
    figure = chart(title, height=128 + 44 * n, showlegend=False, margin={"b": 66, "l": 12})
    if groups:
        figure.update_layout(
            height=174 + 44 * n, showlegend=True, margin={"b": 120, "l": 12},
            legend={"y": -80 / (30 + 44 * n)},
        )  # fmt: skip
    if colours is None:
        colours = dict.fromkeys(names, GREY) | dict.fromkeys(names[:1], BLUE)
    row_groups = np.array(groups or names)
    for name, colour in colours.items():
        idx = np.flatnonzero(row_groups == name)
        # No bar where the interval is infinite.
        upper_part = np.nan_to_num(high - gain, posinf=0.0)[idx]
        lower_part = np.nan_to_num(gain - low, posinf=0.0)[idx]
        bar = {"type": "data", "array": upper_part, "arrayminus": lower_part, "color": colour}
        ends = np.stack([low[idx], high[idx]], 1)
        if len(idx):
            marks(figure, gain[idx], height[idx], name, colour, CHANGE_HOVER, size=10,
                  customdata=ends, error_x=bar | {"thickness": 2})  # fmt: skip
    level(figure, x=0, colour=GREY, width=1, dash=None)
    for k, name in zip(height, names, strict=True):
        look = {"xref": "paper", "xanchor": "left", "yshift": 15, "showarrow": False}
        figure.add_annotation(x=0, y=k, text=plotly_text(name, 60), bgcolor="white", **look)
    figure.update_xaxes(range=[lowest, highest])
    figure.update_yaxes(tickvals=list(range(n)), showticklabels=False, ticks="",
                        range=[-0.5, n - 0.25], showgrid=True)  # fmt: skip
    return figure


def _choose_range(gain: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[float, float]:
    """Return both ends of an axis that shows 0, all gains and all but the widest intervals."""
    width = high - low
    is_narrow = np.isfinite(width) & (width <= 3 * np.median(width))
    ends = np.concatenate([[0.0], gain, low[is_narrow], high[is_narrow]])
    pad = 0.06 * float(np.ptp(ends)) or 0.01
    return float(ends.min()) - pad, float(ends.max()) + pad


def label_cells(figure: "Figure", names: Sequence[str]) -> None:
    """Label the rows and columns of a heat map, the first on top."""
    # By number: two long names may be cut to the same text, and plotly would merge them.
    ticks = {"tickvals": list(range(len(names))), "ticktext": list(names), "ticks": ""}
    figure.update_xaxes(**ticks, automargin=True, showline=False)
    figure.update_yaxes(**ticks, autorange="reversed", showgrid=False)


def _make_labels(name: str, hover: str, limit: int) -> dict[str, Any]:
    """Return plotly's name and hover options for a trace."""
    labels: dict[str, Any] = {}
    if name:
        labels["name"] = plotly_text(name, limit)
    if not hover:
        return labels | {"hoverinfo": "skip"}
    box = LEGEND if name else "<extra></extra>"
    return labels | {"hovertemplate": hover if "<extra>" in hover else hover + box}
