"""How errors of found laws are drawn beside those of a published table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float

from datassay.lab.curves import COLOURS, axes, finish, theory
from datassay.report.figure_style import VERMILION

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

LONGEST = 96


def error_bars(
    equations: Sequence[str],
    ours: Mapping[str, tuple[Float[np.ndarray, "e 2"], Bool[np.ndarray, "e 2"]]],
    published: Float[np.ndarray, "e 2"],
    noise: float,
) -> Figure:
    """Errors without and with noise, one pair of columns an equation.

    Args:
        equations: [e], names.
        ours: errors [e, 2] in percent by kind, and whether the terms were right.
        published: [e, 2], percent, dashed.
        noise: of the second column, as a share.

    Returns:
        The figure; circles where the terms were right, crosses where not.
    """
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
    return figure


def law_list(rows: Sequence[tuple[str, str, bool]]) -> Figure:
    """The laws that were found, as text.

    Args:
        rows: (case, law, whether its terms are right).

    Returns:
        The figure: one line a law, wrong ones in red.
    """
    figure = axes("", "", height=40 + 24 * len(rows))
    figure.update_xaxes(visible=False, range=[0, 1])
    figure.update_yaxes(visible=False, range=[len(rows) - 0.5, -0.5])
    # An invisible point keeps the axes of a figure that holds text only.
    figure.add_scatter(x=[0.0], y=[0.0], mode="markers", opacity=0, showlegend=False)
    for place, (case, law, right) in enumerate(rows):
        shown = law if len(law) <= LONGEST else law[: LONGEST - 1] + "…"
        for x, text in ((0.0, case), (0.27, shown)):
            figure.add_annotation(
                x=x, y=place, text=text, showarrow=False, xanchor="left",
                font={"size": 12} if right else {"size": 12, "color": VERMILION},
            )  # fmt: skip
    figure.update_layout(margin={"l": 8, "r": 8, "t": 8, "b": 8})
    return figure
