"""Lab figures: measurements as marks or full lines, theory as dashed lines over them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from jaxtyping import Float, Int

from datassay.report import BLUE, GREY, INK, SKY, VERMILION, log_ticks, style

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

R = TypeVar("R")
Values = Sequence[float] | np.ndarray
Figures = tuple[Any, ...]
"""Plotly figures, in the order of their titles in course.toml."""
COLOURS = (BLUE, VERMILION, "#009e73", "#cc79a7", SKY, "#b8860b", "#6a5acd", GREY)
# Most points of one line: a screen has no more columns.
MOST_POINTS = 600
SIGNED = ((0, "#004a77"), (0.25, "#4f9fcc"), (0.5, "#ffffff"), (0.75, "#ee9a5a"), (1, "#983a00"))
GREY_SCALE = ((0, "#ffffff"), (1, "#1f2933"))


@dataclass(frozen=True, slots=True)
class Plot:
    """One figure."""

    title: str  # title above the figure; a few words
    figure: "Figure"  # plotly figure with axes and units; theory dashed over measurements
    text: str  # alt text
    wide: bool = False  # whether it takes the full width of the page

    def __post_init__(self) -> None:
        finish(self.figure)


def add_titles(draw: Callable[[R], tuple[Any, ...]]) -> Callable[[R], tuple[Plot, ...]]:
    """Wrap a function NAME_plots that draws figures; add titles and texts from course.toml."""

    @wraps(draw)
    def plots(result: R) -> tuple[Plot, ...]:
        from datassay_lab.catalog import experiment

        texts = experiment(draw.__name__.removesuffix("_plots").replace("_", "-")).figures
        pairs = zip(draw(result), texts, strict=True)
        return tuple(Plot(title, f, text, bool(wide)) for f, (title, text, *wide) in pairs)

    return plots


def axes(x_title: str, y_title: str, *, log: str = "", height: int = 360) -> "Figure":
    """Return an empty figure in the pages' style; titles need units, log is "", "x", "y", "xy"."""
    import plotly.graph_objects as go

    figure = go.Figure()
    style(figure, x_title, y_title)
    figure.update_layout(height=height, showlegend=True)
    figure.update_xaxes(type="log" if "x" in log else "linear")
    figure.update_yaxes(type="log" if "y" in log else "linear")
    return figure


def add_data(
    figure: "Figure",
    x: Values,
    y: Values,
    name: str,
    *,
    series: int = 0,
    mode: str = "lines+markers",
    spread: np.ndarray | None = None,
) -> None:
    """Add measured lines, [m] against [m] or [r, m]: r lines of one entry in the legend."""
    # name: "" leaves it out of the legend. series: of the colour. mode: "lines", "markers" or both.
    # spread: [m], half the length of error bars.
    colour, points = COLOURS[series % len(COLOURS)], _shown_points(len(x))
    for repeat, values in enumerate(np.atleast_2d(np.asarray(y, float))):
        label, bars = "" if repeat else name, spread if spread is None else spread[points]
        figure.add_scatter(
            **_line(x, values, label),
            mode=mode,
            line={"color": colour, "width": 2.5},
            marker={"color": colour, "size": 7},
            error_y={"array": bars, "thickness": 1, "width": 2},
        )


def theory(
    figure: "Figure", x: Values, y: Values, name: str = "theory", *, colour: str = INK
) -> None:
    """Add a line of theory, [m] against [m], dashed; "" leaves out the legend."""
    line = {"color": colour, "width": 2, "dash": "dash"}
    figure.add_scatter(**_line(x, y, name), mode="lines", line=line)


def finish(figure: "Figure") -> None:
    """Set powers of ten as ticks of logarithmic axes, where no others are set."""
    traces: Any = figure.data
    for letter in "xy":
        axis: Any = figure.layout[f"{letter}axis"]
        if axis.type == "log" and axis.tickvals is None:
            values = np.concatenate([np.asarray(t[letter], float) for t in traces])
            values = values[np.isfinite(values) & (values > 0)]
            if len(values):
                axis.update(**log_ticks(values))


def pictures(
    images: np.ndarray,
    titles: Sequence[str],
    *,
    columns: int = 5,
    signed: bool = False,
    shared: bool = True,
    side: int = 170,
) -> "Figure":
    """Draw small images [m, H, W] side by side, row 0 on top, a title above each."""
    # signed: blue below 0, white at 0, orange above; otherwise white to black. shared: one scale
    # for all images; otherwise each has its own. side: height of one row in pixels.
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    columns = min(columns, len(images))
    rows = -(-len(images) // columns)
    figure = make_subplots(
        rows=rows, cols=columns, subplot_titles=list(titles),
        horizontal_spacing=0.02, vertical_spacing=0.16 / rows,
    )  # fmt: skip
    for index, image in enumerate(np.asarray(images, float)):
        reference = images if shared else image
        high = float(np.abs(reference).max()) or 1.0
        low = -high if signed else float(np.min(reference))
        figure.add_trace(
            go.Heatmap(
                z=image, zmin=low, zmax=high, showscale=False,
                colorscale=SIGNED if signed else GREY_SCALE,
                hovertemplate="row %{y}, column %{x}: %{z:.3g}<extra></extra>",
            ),
            row=index // columns + 1,
            col=index % columns + 1,
        )  # fmt: skip
    style(figure, "", "")
    figure.update_xaxes(visible=False, constrain="domain")
    figure.update_yaxes(visible=False, autorange="reversed", scaleanchor=None, constrain="domain")
    for index in range(len(images)):
        axis = "" if index == 0 else str(index + 1)
        figure.layout[f"yaxis{axis}"].update(scaleanchor=f"x{axis}", scaleratio=1)
    figure.update_annotations(font_size=12)
    margin = {"l": 8, "r": 8, "t": 36, "b": 8}
    figure.update_layout(height=rows * side + 44, showlegend=False, margin=margin)
    return figure


MORE_COLOURS = (*COLOURS, "#7a5230", "#2f4f4f")


def latent_map(
    codes: Float[np.ndarray, "n 2"], labels: Int[np.ndarray, " n"], x_title: str, y_title: str
) -> "Figure":
    """Draw codes of labelled samples: one colour per class, its name at its median."""
    figure = axes(x_title, y_title, height=430)
    for label in np.unique(labels):
        x, y = codes[labels == label].T
        colour = MORE_COLOURS[int(label) % len(MORE_COLOURS)]
        figure.add_scatter(
            x=x, y=y, mode="markers", marker={"color": colour, "size": 5, "opacity": 0.65},
            name=str(label), showlegend=False,
            hovertemplate="%{x:.3g}, %{y:.3g}<extra>class " + str(label) + "</extra>",
        )  # fmt: skip
        figure.add_annotation(
            x=float(np.median(x)), y=float(np.median(y)), text=f"<b>{label}</b>", showarrow=False,
            font={"size": 17, "color": INK}, bgcolor="rgba(255,255,255,0.75)",
        )  # fmt: skip
    return figure


def _shown_points(n: int) -> np.ndarray:
    return np.unique(np.linspace(0, n - 1, min(n, MOST_POINTS)).round().astype(int))


def _line(x: Values, y: Values, name: str) -> dict[str, Any]:
    points = _shown_points(len(x))
    return {
        "x": np.asarray(x, float)[points],
        "y": np.asarray(y, float)[points],
        "name": name,
        "showlegend": bool(name),
        "hovertemplate": "%{x:.4g}: %{y:.4g}" + f"<extra>{name}</extra>",
    }
