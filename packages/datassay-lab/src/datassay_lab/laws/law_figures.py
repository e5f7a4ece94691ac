"""Figures of discovered laws: a table, and errors beside those of a published table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float

from datassay.report import INK, VERMILION, style
from datassay_lab.curves import COLOURS, axes, finish, theory

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

LONGEST = 105
ROW = 26  # height of a line in pixels
WASH = "#f6f8fa"


def error_bars(
    equations: Sequence[str],
    ours: Mapping[str, tuple[Float[np.ndarray, "e 2"], Bool[np.ndarray, "e 2"]]],
    published: Float[np.ndarray, "e 2"],
    noise: float,
) -> Figure:
    """Errors without and with noise, one pair of columns per equation."""
    # ours: errors [e, 2] in percent by kind, and whether the terms were right. noise: of the
    # second column, as a share.
    figure = axes("", "mean error of the coefficients, %", log="y", height=400)
    columns = np.arange(2 * len(equations))
    for place, (kind, (errors, right)) in enumerate(ours.items()):
        good = right.ravel()
        figure.add_scatter(
            x=columns + 0.16 * (place - (len(ours) - 1) / 2), y=errors.ravel(), name=kind,
            mode="markers", hovertemplate="%{y:.3g} %<extra>" + kind + "</extra>",
            marker={"color": COLOURS[place], "size": 11, "line": {"width": 2},
                    "symbol": np.where(good, "circle", "x-thin-open").tolist()},
        )  # fmt: skip
    for column, value in enumerate(published.ravel()):
        theory(figure, [column - 0.35, column + 0.35], [value, value], "" if column else "S2")
    labels = [f"{name}<br>{end}" for name in equations for end in ("clean", f"{100 * noise:g} %")]
    finish(figure)
    figure.update_xaxes(tickvals=columns, ticktext=labels, range=[-0.5, len(columns) - 0.5])
    figure.update_layout(legend_y=-0.25)
    return figure


def field_picture(values: Float[np.ndarray, "n m"], size: int) -> Float[np.ndarray, "h w"]:
    """A field, thinned to size x size places and scaled to ±1."""
    # size: rows and columns of the picture.
    rows, columns = (np.linspace(0, n - 1, size).astype(int) for n in values.shape)
    return values[np.ix_(rows, columns)] / np.abs(values).max()


def law_table(rows: Sequence[tuple[str, str, bool]]) -> Figure:
    """Table of discovered laws."""
    # rows: (case, law, whether its terms are right).
    import plotly.graph_objects as go

    cases, laws, right = zip(*rows, strict=True)
    shown = [law if len(law) <= LONGEST else law[: LONGEST - 1] + "…" for law in laws]
    colours = [INK if good else VERMILION for good in right]
    figure = go.Figure()
    figure.add_table(
        columnwidth=[2, 5],
        header={"values": ["data", "law found"], "align": "left", "fill": {"color": WASH},
                "font": {"size": 12.5}, "line": {"width": 0}},
        cells={"values": [cases, shown], "align": "left", "height": ROW, "line": {"width": 0},
               "fill": {"color": "white"}, "font": {"size": 12.5, "color": [colours, colours]}},
    )  # fmt: skip
    style(figure, "", "")
    # A law that needs two lines needs two rows.
    lines = sum(1 + len(law) // 60 for law in shown)
    figure.update_layout(height=ROW * (lines + 2), margin={"l": 0, "r": 0, "t": 8, "b": 0})
    return figure
