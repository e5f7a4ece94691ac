"""Why the polynomial said what it said: the parts of single outputs, drawn over the sample."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from datassay.commands.polynomial.job import PolynomialFindings
from datassay.report.drawing import draw, heat_image, heat_limit
from datassay.report.wording import label_text, number

N_TERMS = 6
DEGREES = ("constant", "single inputs", "pairs", "triples")
PICTURE_SIDE = 96


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
