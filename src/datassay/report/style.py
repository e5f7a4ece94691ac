"""The look that all the page's figures share."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from datassay.report.wording import shortened

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

INK, QUIET, RULE = "#1f2933", "#5f6b7a", "#e3e7ec"
BLUE, VERMILION, SKY, GREY = "#0072b2", "#d55e00", "#3aa0d8", "#8a94a0"
MAX_NAME = 28


def plain(text: str, limit: int = MAX_NAME) -> str:
    """A user's text for plotly, which reads pseudo-HTML: cut, with &, < and > as entities."""
    return html.escape(shortened(text, limit), quote=False)


def style(figure: Figure, x_title: str, y_title: str) -> None:
    """Give a figure the page's look and its axes titles with units; changes it in place."""
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


def decades(low: int, high: int) -> tuple[list[int], list[str]]:
    """Whole exponents from low to high, about eight at most, and their texts as powers of ten."""
    ticks = list(range(low, high + 1, max(1, (high - low + 6) // 7)))
    return ticks, [f"10<sup>{str(k).replace('-', '−')}</sup>" for k in ticks]


def log_ticks(values: np.ndarray) -> dict:
    """Tick settings of a logarithmic axis over positive values; plotly's own below two decades."""
    low, high = float(np.log10(values.min())), float(np.log10(values.max()))
    ticks, texts = decades(int(np.ceil(low - 1e-9)), int(np.floor(high + 1e-9)))
    if len(ticks) < 2:
        return {"nticks": 5}
    return {"tickvals": [10.0**k for k in ticks], "ticktext": texts}


MOST_DOTS = 4000


@dataclass(frozen=True, slots=True, eq=False)
class Dots:
    """Samples that are drawn alike.

    Attributes:
        name: in the legend.
        inside: [n], which samples.
        colour: of their marks.
        size: in pixels.
        opacity: in (0, 1].
    """

    name: str
    inside: np.ndarray
    colour: str
    size: int = 6
    opacity: float = 0.7


def drawn_dots(*values: np.ndarray, first: np.ndarray) -> np.ndarray:
    """[n] bool, shown on logarithmic axes: 4000 positive samples at most, `first` before others."""
    positive = np.all([v > 0 for v in values], axis=0)
    chance = np.random.default_rng(0).random(len(first))
    shown = np.zeros(len(first), bool)
    shown[np.lexsort((chance, ~first, ~positive))[:MOST_DOTS]] = True
    return shown & positive


def equal_figure(
    x: np.ndarray,
    y: np.ndarray,
    titles: tuple[str, str],
    groups: Sequence[Dots],
    texts: np.ndarray,
    hover: str,
) -> Figure:
    """One mark a sample on two logarithmic axes, and the dashed line on which both are equal."""
    import plotly.graph_objects as go

    figure = go.Figure()
    inside = np.any([group.inside for group in groups], axis=0)
    both = np.concatenate([x[inside], y[inside]])
    there = both[both > 0]
    ends = np.array([there.min(), there.max()] if len(there) else [1.0, 1.0])
    figure.add_scatter(
        x=ends, y=ends, mode="lines", name="equal", hoverinfo="skip",
        line={"color": INK, "width": 1, "dash": "dash"},
    )  # fmt: skip
    for group in groups:
        if group.inside.any():
            figure.add_scatter(
                x=x[group.inside], y=y[group.inside], mode="markers", name=group.name,
                marker={"color": group.colour, "size": group.size, "opacity": group.opacity},
                text=texts[group.inside].tolist(), hovertemplate=f"{hover}<extra></extra>",
            )  # fmt: skip
    style(figure, *titles)
    ticks = log_ticks(ends)
    figure.update_xaxes(type="log", **ticks)
    figure.update_yaxes(type="log", **ticks)
    figure.update_layout(height=420)
    return figure


# Tol's "muted" scheme, safe for colour-blind readers, and a grey for what is merged.
CLASS_COLOURS = (
    "#332288", "#88ccee", "#117733", "#ddcc77", "#cc6677",
    "#44aa99", "#882255", "#999933", "#aa4499", "#6f7782",
)  # fmt: skip
