"""Map of the codes of labelled samples: one colour per class, its name at its median."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from datassay.report import INK
from datassay_lab.curves import COLOURS, axes

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MORE_COLOURS = (*COLOURS, "#7a5230", "#2f4f4f")


def latent_map(
    codes: Float[np.ndarray, "n 2"], labels: Int[np.ndarray, " n"], x_title: str, y_title: str
) -> Figure:
    """Plot codes of samples in the plane.

    Args:
        codes: [n, 2].
        labels: [n], class of each.
        x_title: of the first code.
        y_title: of the second.

    Returns:
        The figure.
    """
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
