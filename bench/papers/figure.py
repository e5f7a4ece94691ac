"""The papers' figures, drawn by matplotlib and saved as SVG in figures/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    from matplotlib.colors import LinearSegmentedColormap

    signed = LinearSegmentedColormap.from_list("signed", (COLOURS[1], "#ffffff", COLOURS[0]))
    drawing, ((axes,),) = new(1, 1, 4.2, 3.6)
    largest = float(np.abs(values).max()) or 1.0
    image = axes.imshow(
        values.T, extent=(*box[0], *box[1]), origin="lower", aspect="auto",
        cmap=signed, vmin=-largest, vmax=largest,
    )  # fmt: skip
    drawing.colorbar(image)
    axes.set(xlabel=x_title, ylabel=y_title)
    save(drawing, name, title)
