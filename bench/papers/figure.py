"""The papers' figures, drawn by matplotlib and saved as SVG in figures/."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.image import imread

FOLDER = Path(__file__).parent / "figures"
# Okabe and Ito's colours, safe for colour-blind readers.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#8a94a0", "#cc79a7", "#e69f00")
HEAT = LinearSegmentedColormap.from_list("heat", [COLOURS[0], "#f0f0f0", COLOURS[1]])
SIGNED = LinearSegmentedColormap.from_list("signed", [COLOURS[1], "#ffffff", COLOURS[0]])
mpl.rcParams.update({
    "axes.prop_cycle": mpl.cycler(color=COLOURS),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 8,
    "font.size": 8,
    "image.interpolation": "none",  # pictures are kept as they are, not at the figure's resolution
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "datassay",  # the same figure is the same file
})


def new(rows: int, columns: int, width: float, height: float) -> tuple[Figure, np.ndarray]:
    """A figure of rows x columns panels, each width x height inches; axes [rows, columns]."""
    drawing = Figure((columns * width, rows * height + 0.3), layout="constrained", dpi=150)
    return drawing, drawing.subplots(rows, columns, squeeze=False)


def save(drawing: Figure, name: str, title: str) -> None:
    """Write figures/name.svg with its title and without a date."""
    FOLDER.mkdir(exist_ok=True)
    drawing.suptitle(title, fontsize=9, x=0.01, ha="left")
    metadata = {"Date": None, "Title": title}
    drawing.savefig(FOLDER / f"{name}.svg", format="svg", metadata=metadata)


def histogram(
    name: str,
    title: str,
    groups: Mapping[str, np.ndarray],
    *,
    x_title: str,
    log: bool = True,
    bins: int = 32,
) -> None:
    """Share of each group's samples by value, on one axis.

    Logarithmic bins end 9 decades below the largest value; smaller values count in the lowest.
    """
    values = {label: np.asarray(v, float) for label, v in groups.items()}
    if log:
        largest = max(v.max() for v in values.values())
        values = {label: np.maximum(v, 1e-9 * largest) for label, v in values.items()}
    together = np.concatenate(list(values.values()))
    spaced = np.geomspace if log else np.linspace
    edges = spaced(together.min(), together.max(), bins + 1)
    edges[0], edges[-1] = together.min(), together.max()  # geomspace rounds
    drawing, ((axes,),) = new(1, 1, 4.8, 3)
    for label, v in values.items():
        weights, legend = np.full(len(v), 1 / len(v)), f"{label} ({len(v)})"
        axes.hist(v, edges, weights=weights, histtype="stepfilled", alpha=0.4, label=legend)
    axes.set(xscale="log" if log else "linear", xlabel=x_title, ylabel="share")
    axes.legend(frameon=False)
    save(drawing, name, title)


def curves(
    name: str,
    title: str,
    lines: Mapping[str, tuple[Sequence[float] | np.ndarray, Sequence[float] | np.ndarray]],
    *,
    x_title: str,
    y_title: str,
) -> None:
    """Lines y(x)."""
    drawing, ((axes,),) = new(1, 1, 4.8, 3)
    for label, (x, y) in lines.items():
        axes.plot(x, y, label=label)
    axes.set(xlabel=x_title, ylabel=y_title)
    axes.legend(frameon=False)
    save(drawing, name, title)


def scatters(
    name: str,
    title: str,
    rows: Mapping[str, Mapping[str, tuple[np.ndarray, np.ndarray]]],
    *,
    x_title: str,
    y_title: str,
    most: int = 800,
) -> None:
    """Rows of panels of points (x, y) on one scale for both axes, with the line x = y.

    Of more than `most` points every k-th is drawn.
    """
    drawing, panels = new(len(rows), max(map(len, rows.values())), 2.2, 2.4)
    for (row, columns), line in zip(rows.items(), panels, strict=True):
        for axes in line[len(columns) :]:
            axes.axis("off")
        for (label, (x, y)), axes in zip(columns.items(), line[: len(columns)], strict=True):
            step = -(-len(x) // most)
            ends = [min(np.min(x), np.min(y)), max(np.max(x), np.max(y))]
            axes.plot(ends, ends, color=COLOURS[1], linewidth=1)
            dots = {"color": COLOURS[0], "alpha": 0.5, "markersize": 3, "rasterized": True}
            axes.plot(x[::step], y[::step], ".", **dots)
            axes.set(aspect="equal", title=f"{row}: {label}", xlabel=x_title, ylabel=y_title)
    save(drawing, name, title)


def heatmaps(name: str, title: str, panels: Mapping[str, tuple[Sequence[str], np.ndarray]]) -> None:
    """Square matrices with their numbers, side by side; colours from 0 to 1."""
    drawing, ((*every,),) = new(1, len(panels), 3.6, 3.4)
    for (label, (names, matrix)), axes in zip(panels.items(), every, strict=True):
        axes.imshow(matrix, cmap="Blues", vmin=0, vmax=1)
        axes.set_xticks(range(len(names)), names, rotation=45, ha="right")
        axes.set_yticks(range(len(names)), names)
        axes.set_title(label)
        for (i, j), value in np.ndenumerate(matrix):
            ink = "white" if value > 0.6 else "black"
            axes.text(j, i, f"{value:.2f}", ha="center", va="center", color=ink)
    save(drawing, name, title)


def galleries(name: str, title: str, rows: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Rows of pictures, each the data URI of a PNG with its caption."""
    drawing, panels = new(len(rows), max(map(len, rows.values())), 0.7, 1.0)
    for (label, pictures), line in zip(rows.items(), panels, strict=True):
        for axes in line:
            axes.axis("off")
        line[0].set_title(label, loc="left")
        for (picture, caption), axes in zip(pictures, line[: len(pictures)], strict=True):
            axes.imshow(imread(BytesIO(b64decode(picture.partition(",")[2])), "png"), cmap="gray")
            axes.text(0.5, -0.04, caption, transform=axes.transAxes, ha="center", va="top")
    save(drawing, name, title)


def planes(
    name: str,
    title: str,
    panels: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray | None]],
    window: tuple[tuple[float, float], tuple[float, float]],
) -> None:
    """Points of a plane, coloured by a value in [0, 1], over the part of it where a mask is true.

    A panel is points [n, 2], values [n] and a mask [rows, columns] over the window, lowest row
    first, or None.
    """
    drawing, ((*every,),) = new(1, len(panels), 2.4, 2)
    for (label, (points, values, mask)), axes in zip(panels.items(), every, strict=True):
        if mask is not None:
            _image(axes, mask.astype(float), (*window[0], *window[1]), alpha=0.25)
        axes.scatter(*points.T, c=values, cmap=HEAT, vmin=0, vmax=1, s=4, rasterized=True)
        axes.set(xlim=window[0], ylim=window[1], xticks=[], yticks=[], aspect="equal", title=label)
    save(drawing, name, title)


def maps(
    name: str, title: str, panels: Mapping[str, tuple[np.ndarray, Sequence, Sequence, str]]
) -> None:
    """Colour maps side by side: values [rows, columns], both axes' ticks, the column axis' title.

    Row 0 is at the bottom. Blue is the lowest value of a map, vermilion its highest.
    """
    drawing, ((*every,),) = new(1, len(panels), 3.6, 3.2)
    for (label, (values, rows, columns, x_title)), axes in zip(panels.items(), every, strict=True):
        drawing.colorbar(axes.imshow(values, cmap=HEAT, origin="lower"), shrink=0.8)
        axes.set(title=label, xlabel=x_title)
        axes.set_yticks(range(0, len(rows), 4), [f"{tick:.3g}" for tick in rows[::4]])
        marks = [f"{tick:.3g}" for tick in columns[::4]]
        axes.set_xticks(range(0, len(columns), 4), marks, rotation=45)
    save(drawing, name, title)


def signed_map(
    name: str,
    title: str,
    values: np.ndarray,
    box: Sequence[Sequence[float]],
    *,
    x_title: str,
    y_title: str,
) -> None:
    """A value over two inputs, [first input, second input]: blue above 0, vermilion below."""
    drawing, ((axes,),) = new(1, 1, 4.2, 3.6)
    largest = float(np.abs(values).max()) or 1.0
    extent = (box[0][0], box[0][1], box[1][0], box[1][1])
    drawing.colorbar(_image(axes, values.T, extent, cmap=SIGNED, vmin=-largest, vmax=largest))
    axes.set(xlabel=x_title, ylabel=y_title)
    save(drawing, name, title)


def _image(axes: Axes, values: np.ndarray, extent: tuple[float, ...], **style):
    """Values [rows, columns] over x0, x1, y0, y1, the lowest row first."""
    style = {"cmap": HEAT} | style
    return axes.imshow(values, extent=extent, origin="lower", aspect="auto", **style)
