"""The page of a polynomial surrogate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datassay.commands.polynomial.advice import polynomial_advice
from datassay.commands.polynomial.explained import explained_cards
from datassay.commands.polynomial.figures import polynomial_figures
from datassay.commands.polynomial.findings import PolynomialFindings, term_names
from datassay.commands.polynomial.method import polynomial_notes
from datassay.report.heat_map import heat_image, heat_limit
from datassay.report.old_html import advice_cards, card_kind, render
from datassay.report.page import Row
from datassay.report.wording import count, number, percent, signed

N_COEF, MAX_OUTPUTS = 20, 12
SNIPPET = """\
from pathlib import Path

from datassay.polynomial.contributions import contributions
from datassay.polynomial.surrogate import load_surrogate

fitted = load_surrogate(Path("polynomial.safetensors"))  # arrays and names: nothing is unpickled
outputs = fitted.outputs(x)  # x as you gave it to datassay, [n, ...] -> [n, q]
parts = contributions(fitted.polynomial, fitted.inputs(x[:1]))
print(fitted.output_names, outputs[0])
print(parts.constant + parts.shares[0].sum(axis=0))  # the same, by input
"""


@dataclass(frozen=True, slots=True)
class MapRow:
    """The maps of one degree.

    Attributes:
        title: what they show.
        pictures: (output's name, data URI), one an output.
        limit: where the colours end.
        beyond: the share of cells beyond, in words.
    """

    title: str
    pictures: tuple[tuple[str, str], ...]
    limit: str
    beyond: str


def render_polynomial_page(findings: PolynomialFindings) -> str:
    """The surrogate as one self-contained HTML page; see `html.render` for what it promises.

    Args:
        findings: one surrogate.

    Returns:
        HTML.
    """
    figures = polynomial_figures(findings)
    return render("polynomial.html", ("figures.js",), _context(findings, set(figures)), figures)


def _context(findings: PolynomialFindings, figures: set[str]) -> dict[str, object]:
    samples, scores = findings.samples, findings.scores
    cards = explained_cards(findings)
    sections = [("next", "What to do next"), ("scores", "How good it is")]
    sections += [("fit", "Fit")] * bool(figures & {"ridge", "batches"})
    sections += [("maps", "What it weighs" if findings.maps is not None else "Coefficients")]
    sections += [("why", "Why this prediction")]
    sections += [("robust", "Robustness")] * bool(findings.robustness)
    p = findings.surrogate.polynomial.monomials.n_features
    return {
        "brand": "datassay polynomial · a surrogate whose weights can be read",
        "title": samples.name,
        "lead": f"A polynomial of {count(p, 'feature')}, validation {scores.metric} "
        f"{scores.each[-1].mean():.3f}",
        "facts": findings.facts,
        "warnings": findings.warnings,
        "advice": advice_cards(polynomial_advice(findings)),
        "gallery_view": "all",
        "sections": [*sections, ("use", "Use it"), ("method", "Method")],
        "score_columns": score_columns(findings),
        "score_rows": score_rows(findings),
        "fit_note": _fit_note(findings),
        "maps": map_rows(findings),
        "degree_columns": _degree_columns(findings),
        "degree_rows": degree_rows(findings),
        "coef_columns": coef_columns(findings),
        "coef_rows": coef_rows(findings),
        "coef_note": _coef_note(findings),
        "cards": cards,
        "card_kind": card_kind(cards),
        "any_wrong": any(card.is_wrong for card in cards),
        "samples": samples,
        "snippet": SNIPPET,
        "method": polynomial_notes(findings),
    }


def score_columns(findings: PolynomialFindings) -> list[str]:
    """Headings of `score_rows`.

    Args:
        findings: one surrogate.

    Returns:
        The first is of the row names.
    """
    metric = findings.scores.metric
    unit = ", points" if metric == "accuracy" else ""
    return [
        "model", "features", f"validation {metric}", f"training {metric}",
        f"ours better by{unit}", "95 % interval",
    ]  # fmt: skip


def score_rows(findings: PolynomialFindings) -> list[Row]:
    """Scores of the simpler models and of this one.

    Args:
        findings: one surrogate.

    Returns:
        One row a model.
    """
    scores = findings.scores
    rows = []
    for i, name in enumerate(scores.names):
        cells = [
            f"{scores.n_features[i]:,}",
            _score(float(scores.each[i].mean())),
            _score(float(scores.train[i])),
            "–",
            "–",
        ]
        if i < len(scores.names) - 1:
            change, half = scores.difference(i)
            cells[3] = signed(change, scores.metric)
            low, high = (signed(change + s * half, scores.metric) for s in (-1, 1))
            cells[4] = f"{low} to {high}"
        rows.append(Row(name, tuple(cells)))
    return rows


def _score(value: float) -> str:
    return f"{value:.3f}".replace("-0.000", "0.000").replace("-", "−")


def map_rows(findings: PolynomialFindings) -> list[MapRow]:
    """The coefficient maps as pictures, one scale a degree.

    Args:
        findings: one surrogate.

    Returns:
        Degree 1 and degree 2; empty where there are no maps.
    """
    maps = findings.maps
    if maps is None:
        return []
    shown = [("Degree 1: single pixels", maps.degree_1)]
    if maps.degree_2.any():
        shown.append(("Degree 2: pairs of pixels, at their middle", maps.degree_2))
    rows = []
    for title, values in shown:
        limit = heat_limit(values)
        beyond = float((np.abs(values) > limit).mean())
        pictures = tuple(
            (name, heat_image(picture, limit))
            for name, picture in zip(findings.surrogate.output_names, values, strict=True)
        )
        rows.append(MapRow(title, pictures, number(limit), percent(round(beyond, 3))))
    return rows


def _degree_columns(findings: PolynomialFindings) -> list[str]:
    first = "class" if findings.samples.is_classification else "target"
    return [first, *(f"degree {t}" for t in range(1, len(findings.degree_spread) + 1))]


def degree_rows(findings: PolynomialFindings) -> list[Row]:
    """How much the products of each degree move each output.

    Args:
        findings: one surrogate.

    Returns:
        One row an output, at most `MAX_OUTPUTS`.
    """
    names, spread = findings.surrogate.output_names, findings.degree_spread
    return [
        Row(name, tuple(number(float(s)) for s in column))
        for name, column in list(zip(names, spread.T, strict=True))[:MAX_OUTPUTS]
    ]


def coef_columns(findings: PolynomialFindings) -> list[str]:
    """Headings of `coef_rows`.

    Args:
        findings: one surrogate.

    Returns:
        The first is of the products.
    """
    return ["product", *findings.surrogate.output_names[:MAX_OUTPUTS]]


def coef_rows(findings: PolynomialFindings) -> list[Row]:
    """The products with the largest coefficients.

    Args:
        findings: one surrogate.

    Returns:
        The constant, then `N_COEF` products by the largest size of a coefficient among the
        outputs shown; empty for images, which have maps.
    """
    if findings.maps is not None:
        return []
    coef = findings.surrogate.polynomial.monomial_coef[:, :MAX_OUTPUTS]
    names = term_names(findings.surrogate)
    order = np.argsort(-np.abs(coef[1:]).max(axis=1), kind="stable")[:N_COEF] + 1
    return [
        Row("constant" if p == 0 else names[p], tuple(_coef(float(v)) for v in coef[p]))
        for p in (0, *order)
    ]


def _coef(value: float) -> str:
    return ("−" if value < 0 else "") + number(abs(value))


def _coef_note(findings: PolynomialFindings) -> str:
    p, q = findings.surrogate.polynomial.coef.shape
    shown = min(N_COEF, p - 1)
    told = f"The {shown} largest of {count(p - 1, 'coefficient')} an output"
    if q > MAX_OUTPUTS:
        told += f", of the first {MAX_OUTPUTS} of {q} outputs"
    scaled = "" if findings.samples.kind != "row" else (
        " Inputs are in standard deviations from their mean: a coefficient is what one standard "
        "deviation of each input in the product adds."
    )  # fmt: skip
    return f"{told}; all are in coefficients.parquet.{scaled}"


def _fit_note(findings: PolynomialFindings) -> str:
    fit = findings.fit
    if fit is None:
        return ""
    if fit.path is not None:
        return (
            f"Each ridge's error is measured on {count(fit.path.n_rows, 'training sample')}, each "
            "left out of the fit in turn, in closed form. The validation samples have no say."
        )
    return (
        "Each batch alone fits its own samples and little else; their average is better on samples "
        "that none of them saw, and fits the training samples less (S3 Figs 3.11 and 3.12)."
    )
