"""Why the polynomial said what it said: the parts of single outputs, drawn over the sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from datassay.commands.polynomial.findings import PolynomialFindings, input_names, term_names
from datassay.report.drawing import Drawing, draw, heat_image, heat_limit
from datassay.report.wording import label_text, number

N_WRONG, N_RIGHT = 6, 6
N_TERMS = 6
DEGREES = ("constant", "single inputs", "pairs", "triples")
PICTURE_SIDE = 96


@dataclass(frozen=True, slots=True)
class Bar:
    """One part of an output: signed value, and size as a share of the panel's largest part."""

    name: str
    value: str
    share: float
    is_positive: bool


@dataclass(frozen=True, slots=True)
class Panel:
    """One output of one sample, taken apart.

    Attributes:
        title: which output, and why this one.
        picture: data URI of what each pixel adds; empty for rows.
        total: the sum in words: "0.10 constant + 0.52 single inputs + 0.31 pairs = 0.93".
        bars: the largest products.
    """

    title: str
    picture: str
    total: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class ExplainedCard:
    """One validation sample with its outputs taken apart.

    Attributes:
        id: the sample's id.
        caption: what is predicted, and what is given where that differs.
        is_wrong: whether another class is predicted.
        drawing: the sample itself.
        panels: the predicted class and its rival, or the target.
    """

    id: str
    caption: str
    is_wrong: bool
    drawing: Drawing
    panels: tuple[Panel, ...]


def chosen_samples(
    margin: np.ndarray, is_classification: bool, y: np.ndarray, most: int, seed: int = 0
) -> Int[np.ndarray, " e"]:
    """Which validation samples to explain.

    Args:
        margin: [m], see `margins`.
        is_classification: whether a margin below 0 is a wrong class.
        y: [m], labels; right samples are drawn of as many classes as there is room for.
        most: how many at most.
        seed: of the draw.

    Returns:
        Up to 6 that are wrong, furthest off first (of targets: of largest error), then up to 6
        others drawn at random.
    """
    order = np.argsort(margin, kind="stable")
    n_wrong = int((margin < 0).sum()) if is_classification else len(order)
    first = order[: min(n_wrong, N_WRONG, (most + 1) // 2)]
    rest = np.random.default_rng(seed).permutation(
        order[n_wrong if is_classification else len(first) :]
    )
    if is_classification:  # one of each class, then a second of each, ...
        turn = np.zeros(len(rest), int)
        for c in np.unique(y[rest]):
            turn[y[rest] == c] = np.arange(int((y[rest] == c).sum()))
        rest = rest[np.argsort(turn, kind="stable")]
    return np.concatenate([first, rest[: min(N_RIGHT, most - len(first))]]).astype(np.int64)


def explained_cards(findings: PolynomialFindings) -> tuple[ExplainedCard, ...]:
    """The samples that the page explains, wrong ones first."""
    val, classes = findings.validation, findings.validation.class_names
    names, shares = term_names(findings.surrogate), findings.parts.shares  # [e, d, q]
    cards = []
    for e, drawing in enumerate(draw(val, findings.explained, PICTURE_SIDE)):
        i = int(findings.explained[e])
        given, is_wrong = label_text(classes, val.y[i]), bool(findings.is_wrong[i])
        caption = f"predicted {label_text((), findings.outputs[i])}, given {given}"
        if classes:
            caption = f"predicted {classes[int(findings.predicted[i])]}"
            caption += f", given {given}" if is_wrong else ""
        panels = _panels(findings, e, names, shares[e])
        cards.append(ExplainedCard(str(val.ids[i]), caption, is_wrong, drawing, panels))
    return tuple(cards)


def _panels(
    findings: PolynomialFindings, e: int, names: list[str], shares: Float[np.ndarray, "d q"]
) -> tuple[Panel, ...]:
    i, parts = int(findings.explained[e]), findings.parts
    shown, shape = _outputs_shown(findings, i), parts.monomials.image_shape
    pictures = [""] * len(shown)
    if shape is not None:
        maps = [shares[:, k].reshape(shape) for k, _ in shown]
        limit, under = heat_limit(np.stack(maps)), _grey(findings, i, shape)
        pictures = [heat_image(values, limit, under) for values in maps]
    panels = []
    for (k, title), picture in zip(shown, pictures, strict=True):
        top = parts.top(e, k, N_TERMS)
        bars = _bars([names[p] for p in top], parts.value[e, top, k])
        total = _total(parts.by_degree[e, :, k], float(findings.outputs[i, k]))
        panels.append(Panel(title, picture, total, bars))
    if shape is None and len(shown) == 1:  # a target: the same by column
        panels.append(_by_column(findings, shares[:, shown[0][0]], shown[0][1]))
    return tuple(panels)


def _by_column(findings: PolynomialFindings, shares: np.ndarray, title: str) -> Panel:
    columns = input_names(findings.surrogate)
    top = np.argsort(-np.abs(shares), kind="stable")[:N_TERMS]
    total = f"{_signed(float(shares.sum()))} beside the constant, each product divided equally"
    return Panel(f"{title}, by column", "", total, _bars([columns[j] for j in top], shares[top]))


def _bars(names: list[str], values: np.ndarray) -> tuple[Bar, ...]:
    largest = float(np.abs(values).max(initial=0)) or 1.0
    return tuple(
        Bar(name, _signed(float(v)), float(abs(v)) / largest, bool(v > 0))
        for name, v in zip(names, values, strict=True)
    )


def _grey(findings: PolynomialFindings, i: int, shape: tuple[int, int]) -> np.ndarray:
    x = findings.validation.x
    low, high = float(x.min()), float(x.max())
    return (x[i].reshape(shape).astype(float) - low) / ((high - low) or 1.0)


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
