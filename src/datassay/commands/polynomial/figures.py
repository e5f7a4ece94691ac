"""Figures of a polynomial surrogate, and why it said what it said: parts of single outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from datassay.commands.polynomial.job import PolynomialFindings
from datassay.polynomial.batched import BatchCurve
from datassay.polynomial.exact import RidgePath
from datassay.report.drawing import draw, heat_image, heat_limit
from datassay.report.plots import chart, level, line
from datassay.report.style import BLUE, GREY, SKY, VERMILION
from datassay.report.wording import label_text, number
from datassay.score.compare.robustness import Robustness

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

LEVELS = {
    "noise": "standard deviation σ of the noise",
    "patches": "area A of the black patch, pixels",
}
LINES = ((BLUE, "solid"), (VERMILION, "dash"), (GREY, "dot"))
N_TERMS = 6
DEGREES = ("constant", "single inputs", "pairs", "triples")
PICTURE_SIDE = 96


def ridge_figure(path: RidgePath) -> Figure:
    """Leave-one-out error against the ridge, squared and, of classes, the share of wrong ones."""
    two = bool(np.isfinite(path.class_error).any())
    title = "leave-one-out squared error"
    figure = chart("ridge (log scale)", title, log_x=path.ridge, showlegend=two)
    line(
        figure, path.ridge, path.squared_error, "squared error", BLUE,
        "ridge %{x:.3g}: %{y:.4g}<extra>squared error</extra>", width=2.5, mode="lines+markers",
        marker={"size": 5},
    )  # fmt: skip
    if two:
        name, hover = "share of wrong classes, right", "ridge %{x:.3g}: %{y:.2%} wrong"
        hover += "<extra></extra>"
        line(figure, path.ridge, path.class_error, name, VERMILION, hover, dash="dash", yaxis="y2")
        right = {"overlaying": "y", "side": "right", "showgrid": False, "tickformat": ".1%"}
        right |= {"title": {"text": "wrong classes"}, "rangemode": "tozero", "ticks": "outside"}
        right |= {"tickmode": "auto", "nticks": 6}
        figure.update_layout(margin_r=64, yaxis2=right)
    taken = float(path.ridge[path.chosen])
    level(figure, x=taken, dash="dot")
    figure.add_annotation(
        x=float(np.log10(taken)), y=1, yref="paper", yanchor="bottom", text=f"taken: {taken:.3g}",
        showarrow=False,
    )  # fmt: skip
    figure.update_xaxes(tickangle=0)
    return figure


def batch_figure(curve: BatchCurve) -> Figure:
    """Scores as batches are averaged (S3 Figs 3.11 and 3.12)."""
    figure = chart("batches", "accuracy" if curve.is_accuracy else "R²")
    for name, values, colour, dash in (
        ("average so far, validation", curve.cumulative, BLUE, "solid"),
        ("one batch alone, validation", curve.single, GREY, "dot"),
        ("average so far, in sample", curve.in_sample, VERMILION, "dash"),
        ("average so far, out of bag", curve.out_of_bag, SKY, "dashdot"),
    ):
        there = np.isfinite(values)
        if there.any():
            x = np.arange(1, len(values) + 1)[there]
            mode = "lines+markers" if there.sum() < 3 else "lines"
            look: Any = {"width": 2.5, "dash": dash, "mode": mode}
            line(figure, x, values[there], name, colour, "%{x} batches: %{y:.3f}", **look)
    if curve.is_accuracy:
        figure.update_yaxes(tickformat=".0%")
    return figure


def level_figure(robust: Robustness, lost: bool) -> Figure:
    """Accuracy, or the share of it lost, by level: a line a model (S3 Figs 3.23 and 3.24)."""
    figure = chart(LEVELS[robust.corruption], "share lost" if lost else "accuracy")
    values = robust.drop if lost else robust.accuracy
    ours_first = list(zip(robust.names, values, strict=True))[::-1]
    for (name, y), (colour, dash) in zip(ours_first, LINES, strict=False):
        look: Any = {"width": 2.5, "dash": dash, "mode": "lines+markers", "marker": {"size": 5}}
        line(figure, robust.levels, y, name, colour, "%{x:.3g}: %{y:.1%}", **look)
    figure.update_yaxes(tickformat=".0%", rangemode="tozero")
    return figure


def explained_cards(findings: PolynomialFindings) -> list[dict[str, Any]]:
    """The samples that the page explains, wrong ones first, as `apart.html` shows them."""
    val, classes = findings.validation, findings.validation.class_names
    names, shares = findings.surrogate.term_names, findings.parts.shares  # [e, d, q]
    cards = []
    for e, drawing in enumerate(draw(val, findings.explained, PICTURE_SIDE)):
        i = int(findings.explained[e])
        given, is_wrong = label_text(classes, val.y[i]), bool(findings.is_wrong[i])
        caption = f"predicted {label_text((), findings.outputs[i])}, given {given}"
        if classes:
            caption = f"predicted {classes[int(findings.predicted[i])]}"
            caption += f", given {given}" if is_wrong else ""
        panels = _panels(findings, e, names, shares[e])
        cards.append({
            "id": str(val.ids[i]),
            "caption": caption,
            "is_wrong": is_wrong,
            "drawing": drawing,
            "panels": panels,
        })
    return cards


def _panels(
    findings: PolynomialFindings, e: int, names: list[str], shares: Float[np.ndarray, "d q"]
) -> list[dict[str, Any]]:
    """The predicted class and its rival, or the target: what each part adds."""
    i, parts = int(findings.explained[e]), findings.parts
    shown, shape = _outputs_shown(findings, i), parts.monomials.image_shape
    pictures = [""] * len(shown)
    if shape is not None:
        maps = [shares[:, k].reshape(shape) for k, _ in shown]
        x = findings.validation.x
        low, high = float(x.min()), float(x.max())
        grey = (x[i].reshape(shape).astype(float) - low) / ((high - low) or 1.0)
        limit = heat_limit(np.stack(maps))
        pictures = [heat_image(values, limit, grey) for values in maps]
    panels = []
    for (k, title), picture in zip(shown, pictures, strict=True):
        top = parts.top(e, k, N_TERMS)
        total = _total(parts.by_degree[e, :, k], float(findings.outputs[i, k]))
        bars = _bars([names[p] for p in top], parts.value[e, top, k])
        panels.append({"title": title, "picture": picture, "total": total, "bars": bars})
    if shape is None and len(shown) == 1:  # a target: the same by column
        (k, title), columns = shown[0], findings.surrogate.input_names
        top = np.argsort(-np.abs(shares[:, k]), kind="stable")[:N_TERMS]
        total = f"{_signed(float(shares[:, k].sum()))} beside the constant, each product divided "
        bars = _bars([columns[j] for j in top], shares[top, k])
        own = {"title": f"{title}, by column", "total": f"{total}equally", "bars": bars}
        panels.append({"picture": "", **own})
    return panels


def _bars(names: list[str], values: np.ndarray) -> list[dict[str, Any]]:
    """Signed values, and sizes as shares of the panel's largest part."""
    largest = float(np.abs(values).max(initial=0)) or 1.0
    return [
        {"name": name, "value": _signed(v), "share": abs(v) / largest, "is_positive": v > 0}
        for name, v in zip(names, values.tolist(), strict=True)
    ]


def _outputs_shown(findings: PolynomialFindings, i: int) -> list[tuple[int, str]]:
    """Which outputs to take apart, and what they are here."""
    names, outputs = findings.surrogate.output_names, findings.outputs[i]
    if not findings.samples.is_classification:
        k = int(np.abs(outputs - findings.validation.y[i]).argmax())
        return [(k, names[k])]
    best = int(findings.predicted[i])
    if findings.is_wrong[i]:
        given = int(findings.validation.y[i])
        return [(best, f"{names[best]}, predicted"), (given, f"{names[given]}, given")]
    second = int(np.argsort(-outputs, kind="stable")[1])
    return [(best, f"{names[best]}, predicted"), (second, f"{names[second]}, second")]


def _total(by_degree: np.ndarray, output: float) -> str:
    names = [DEGREES[t] if t < len(DEGREES) else f"degree {t}" for t in range(len(by_degree))]
    first, *others = zip(by_degree, names, strict=True)
    total = f"{_signed(float(first[0])).removeprefix('+')} {first[1]}"
    total += "".join(f" {_signed(float(v))} {name}" for v, name in others)
    return f"{total} = {_signed(output).removeprefix('+')}"


def _signed(value: float) -> str:
    return ("+" if value >= 0 else "−") + number(abs(value))
