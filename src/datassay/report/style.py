"""The look that all the page's figures share."""

import html
from typing import TYPE_CHECKING

import numpy as np

from datassay.report.wording import shortened

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

INK = "#1f2933"
QUIET = "#5f6b7a"
RULE = "#e3e7ec"
BLUE = "#0072b2"
VERMILION = "#d55e00"
SKY = "#3aa0d8"
GREY = "#8a94a0"
MAX_NAME = 28


def plotly_text(text: str, limit: int = MAX_NAME) -> str:
    """Escape a user's text for plotly, which reads pseudo-HTML, and shorten it."""
    return html.escape(shortened(text, limit), quote=False)


def layout(x_title: str, y_title: str) -> dict:
    """Return the layout of a figure in the page's look; axis titles include their units."""
    # Plotly takes six times as long for a figure that is made first and styled then.
    settings: dict = {"bargap": 0, "template": "none", "height": 360}
    settings["margin"] = {"l": 58, "r": 12, "t": 24, "b": 48}
    settings |= dict.fromkeys(("paper_bgcolor", "plot_bgcolor"), "rgba(0,0,0,0)")
    settings["font"] = {"family": "system-ui, sans-serif", "size": 12.5, "color": INK}
    settings["hoverlabel"] = {"font": {"family": "system-ui, sans-serif"}}
    settings["legend"] = {"orientation": "h", "yanchor": "top", "y": -0.2, "x": 0}
    settings["legend"] |= {"xanchor": "left", "traceorder": "normal"}
    axis: dict = {"gridcolor": RULE, "zeroline": False, "linecolor": QUIET, "ticks": "outside"}
    axis |= {"tickcolor": QUIET, "title_standoff": 8}
    settings["xaxis"] = {"title_text": x_title, "showgrid": False, "showline": True, **axis}
    settings["yaxis"] = {"title_text": y_title, "automargin": True, **axis}
    return settings


def style(figure: "Figure", x_title: str, y_title: str) -> None:
    """Set the page's fonts, colours and axis titles on a figure, in place."""
    look = layout(x_title, y_title)
    x_axis = look.pop("xaxis")
    y_axis = look.pop("yaxis")
    figure.update_layout(**look)
    figure.update_xaxes(**x_axis)
    figure.update_yaxes(**y_axis)


def decades(low: int, high: int) -> tuple[list[int], list[str]]:
    """Return whole exponents from low to high, about eight at most, and their texts as 10ⁿ."""
    ticks = list(range(low, high + 1, max(1, (high - low + 6) // 7)))
    return ticks, [f"10<sup>{str(k).replace('-', '−')}</sup>" for k in ticks]


def log_ticks(values: np.ndarray) -> dict:
    """Return plotly's ticks for a logarithmic axis: powers of ten, or 1, 2, 5 if few."""
    # Whole exponents, also where rounding has moved one past its end.
    low = float(np.log10(values.min())) - 1e-9
    high = float(np.log10(values.max())) + 1e-9
    ticks, texts = decades(int(np.ceil(low)), int(np.floor(high)))
    if high - low >= 2:
        return {"tickvals": [10.0**k for k in ticks], "ticktext": texts}
    exponents = range(int(np.floor(low)), int(np.ceil(high)) + 1)
    marks = [m * 10.0**k for k in exponents for m in (1, 2, 5) if low <= np.log10(m) + k <= high]
    if len(marks) < 2:
        return {"nticks": 5}
    return {"tickvals": marks, "ticktext": [f"{mark:.3g}" for mark in marks]}


# Tol's "muted" scheme, safe for colour-blind readers, and a grey for what is merged.
CLASS_COLOURS = (
    "#332288", "#88ccee", "#117733", "#ddcc77", "#cc6677",
    "#44aa99", "#882255", "#999933", "#aa4499", "#6f7782",
)  # fmt: skip
