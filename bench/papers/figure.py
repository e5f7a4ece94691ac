"""The papers' figures, drawn by matplotlib and saved as SVG in figures/."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "figures"
# Okabe and Ito's colours, safe for colour-blind readers.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#8a94a0", "#cc79a7", "#e69f00")


def new(rows: int, columns: int, width: float, height: float):
    """A figure of rows x columns panels, each width x height inches; axes [rows, columns]."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update({
        "axes.prop_cycle": mpl.cycler(color=COLOURS),
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlesize": 8,
        "font.size": 8,
        "image.interpolation": "none",  # pictures are kept as they are
        "svg.fonttype": "none",  # text stays text
        "svg.hashsalt": "datassay",  # the same figure is the same file
    })
    drawing = Figure((columns * width, rows * height + 0.3), layout="constrained", dpi=150)
    return drawing, drawing.subplots(rows, columns, squeeze=False)


def scale(*colours: str):
    """A colour map."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("scale", colours)


def save(drawing, name: str, title: str) -> None:
    """Write figures/name.svg with its title and without a date."""
    FOLDER.mkdir(exist_ok=True)
    drawing.suptitle(title, fontsize=9, x=0.01, ha="left")
    metadata = {"Date": None, "Title": title}
    drawing.savefig(FOLDER / f"{name}.svg", format="svg", metadata=metadata)


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
    from matplotlib.image import imread

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
    heat = scale(COLOURS[0], "#f0f0f0", COLOURS[1])
    over = {"extent": (*window[0], *window[1]), "origin": "lower", "aspect": "auto"}
    drawing, ((*every,),) = new(1, len(panels), 2.4, 2)
    for (label, (points, values, mask)), axes in zip(panels.items(), every, strict=True):
        if mask is not None:
            axes.imshow(mask.astype(float), alpha=0.25, cmap=heat, **over)
        axes.scatter(*points.T, c=values, cmap=heat, vmin=0, vmax=1, s=4, rasterized=True)
        axes.set(xlim=window[0], ylim=window[1], xticks=[], yticks=[], aspect="equal", title=label)
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
    image = axes.imshow(
        values.T, extent=(*box[0], *box[1]), origin="lower", aspect="auto",
        cmap=scale(COLOURS[1], "#ffffff", COLOURS[0]), vmin=-largest, vmax=largest,
    )  # fmt: skip
    drawing.colorbar(image)
    axes.set(xlabel=x_title, ylabel=y_title)
    save(drawing, name, title)
