"""The page and files of a polynomial surrogate; `text/polynomial.md.j2` says the rest."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from datassay.commands.frame import change_cells, compose_page, table
from datassay.commands.polynomial.job import PolynomialFindings
from datassay.polynomial.batched import BatchCurve
from datassay.polynomial.exact import RidgePath
from datassay.polynomial.surrogate import save_surrogate
from datassay.report.drawing import draw, heat_image, heat_limit
from datassay.report.page import Page, Partial, Table
from datassay.report.plots import chart, level, line
from datassay.report.style import BLUE, GREY, SKY, VERMILION
from datassay.report.tables import column, labels, standard_json
from datassay.report.wording import label_text, number, percent
from datassay.store.outputs import Part

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

FILES = {
    "predictions.parquet": "each validation sample's outputs",
    "coefficients.parquet": "every coefficient",
    "polynomial.safetensors": "the fit",
    "summary.json": "the figures above",
}
N_COEF, MAX_OUTPUTS = 20, 12
N_TERMS = 6
DEGREES = ("constant", "single inputs", "pairs", "triples")
PICTURE_SIDE = 96


def page(findings: PolynomialFindings) -> Page:
    """Everything on the page."""
    scores, fit = findings.scores, findings.fit
    spread = findings.degree_spread.mean(axis=1)
    total, other = float(spread.sum()) or 1.0, len(scores.names) - 2
    ahead = scores.ahead_of(other)
    cards, maps = explained_cards(findings), _maps(findings)
    largest = _largest(findings)
    numbers = {
        "ours": float(scores.each[-1].mean()),
        "train": float(scores.train[-1]),
        "other": scores.names[other],
        "before": float(scores.each[other].mean()),
        "ahead": ahead,
        "verdict": ahead.verdict,
        "name": scores.names[-1],
        "degree_shares": ", ".join(
            f"degree {t} {percent(round(float(s) / total, 2))}" for t, s in enumerate(spread, 1)
        ),
        "maps": maps,
        "n_largest": len(largest.rows) - 1,
        "most_outputs": MAX_OUTPUTS,
        "shows_wrong": any(card["is_wrong"] for card in cards),
    }
    blocks: dict[str, object] = {
        "scores": _scores(findings),
        "coefficients": largest if findings.maps is None else None,
        "apart": Partial("apart.html", {"cards": cards}),
        **{str(one["name"]): one["pictures"] for one in maps},
    }
    if fit is not None and fit.path is not None:
        blocks["ridge"] = _ridge_figure(fit.path)
    elif fit is not None and fit.curve is not None:
        blocks["batches"] = _batch_figure(fit.curve)
    page, facts = compose_page("polynomial", findings, blocks, numbers, FILES), findings.facts
    headlines = (f"{piece.headline}." for piece in page.advice)
    return replace(page, answer=(f"{facts['Features']}; {facts['Fit']}.", *headlines))


def _maps(findings: PolynomialFindings) -> list[dict[str, object]]:
    """One picture per output and degree, where there are images; all of a degree have one scale."""
    if findings.maps is None:
        return []
    names, maps = findings.surrogate.output_names, []
    for t, title, values in (
        (1, "Degree 1: single pixels", findings.maps.degree_1),
        (2, "Degree 2: pairs of pixels, at their middle", findings.maps.degree_2),
    ):
        if t == 2 and not values.any():
            continue
        limit = heat_limit(values)
        pictures = [(n, heat_image(v, limit)) for n, v in zip(names, values, strict=True)]
        shown = Partial("maps.html", {"limit": number(limit), "pictures": pictures})
        own = {"limit": limit, "beyond": (np.abs(values) > limit).mean()}
        maps.append({"name": f"degree_{t}", "title": title, "pictures": shown, **own})
    return maps


def _scores(findings: PolynomialFindings) -> Table:
    """Simpler models and this one, a row each."""
    scores, rows = findings.scores, []
    for i, name in enumerate(scores.names):
        val, train = (_score(float(values[i].mean())) for values in (scores.each, scores.train))
        ahead, is_ours = scores.ahead_of(i), i == len(scores.names) - 1
        change = "––" if is_ours else change_cells(ahead, scores.metric)
        rows.append((name, f"{scores.n_features[i]:,}", val, train, *change))
    unit = ", points" if scores.metric == "accuracy" else ""
    columns = (
        "model", "features", f"validation {scores.metric}", f"training {scores.metric}",
        "95 % interval", f"ours better by{unit}",
    )  # fmt: skip
    return table("Scores", columns, rows, in_terminal=True)


def _score(value: float) -> str:
    return f"{value:.3f}".replace("-0.000", "0.000").replace("-", "−")


def _largest(findings: PolynomialFindings) -> Table:
    """The constant, then the products with the largest coefficient among the outputs shown."""
    surrogate = findings.surrogate
    shown = surrogate.polynomial.monomial_coef[:, :MAX_OUTPUTS]  # [p, q]
    order = np.argsort(-np.abs(shown[1:]).max(axis=1), kind="stable")[:N_COEF] + 1
    names = ["constant", *surrogate.term_names[1:]]
    rows = [(names[k], *(_coef(float(v)) for v in shown[k])) for k in (0, *order)]
    columns = ("product", *surrogate.output_names[:MAX_OUTPUTS])
    return table("Coefficients", columns, rows, wraps=False)


def _coef(value: float) -> str:
    return ("−" if value < 0 else "") + number(abs(value))


def files(findings: PolynomialFindings, page: Page) -> dict[str, Part]:
    """The files written with the page."""
    return {
        "predictions.parquet": _predictions(findings),
        "coefficients.parquet": _coefficients(findings),
        "polynomial.safetensors": partial(save_surrogate, findings.surrogate),
        "summary.json": standard_json(page.head | _summary(findings)),
    }


def _predictions(findings: PolynomialFindings) -> pa.Table:
    """One row per validation sample; margin: by how much the given label leads, see findings."""
    val = findings.validation
    columns: dict[str, pa.Array] = {"id": column(val.ids), "label": column(val.y)}
    if val.is_classification:
        columns["class_name"] = labels(val, val.y)
        columns["predicted"] = labels(val, findings.predicted)
        columns["is_wrong"] = pa.array(findings.is_wrong)
    columns["margin"] = pa.array(findings.margin)
    return pa.table(columns | _by_output(findings, "output", findings.outputs))


def _coefficients(findings: PolynomialFindings) -> pa.Table:
    """One row per product, the constant first; inputs are positions, ascending, a square twice."""
    # coef_NAME is of the product written once; inputs of rows are in standard deviations.
    polynomial = findings.surrogate.polynomial
    monomials = polynomial.monomials
    inputs = [[i for i in term if i >= 0] for term in monomials.terms.tolist()]
    columns: dict[str, pa.Array] = {
        "product": pa.array(findings.surrogate.term_names),
        "degree": pa.array(monomials.degree),
        "inputs": pa.array(inputs, pa.list_(pa.int64())),
    }
    return pa.table(columns | _by_output(findings, "coef", polynomial.monomial_coef))


def _by_output(findings: PolynomialFindings, prefix: str, values: np.ndarray) -> dict:
    outputs = zip(findings.surrogate.output_names, values.T, strict=True)
    return {f"{prefix}_{name}": pa.array(np.ascontiguousarray(one)) for name, one in outputs}


def _summary(findings: PolynomialFindings) -> dict[str, object]:
    monomials, fit, scores = findings.surrogate.polynomial.monomials, findings.fit, findings.scores
    rows = zip(scores.names, scores.n_features, scores.each, scores.train, strict=True)
    spreads = zip(findings.surrogate.output_names, findings.degree_spread.T, strict=True)
    fitted: dict[str, object] | None = None
    if fit is not None:
        fitted = {"solver": fit.solver, "ridge": fit.ridge, "notes": fit.notes}
        fitted |= {n: one and asdict(one) for n, one in (("path", fit.path), ("curve", fit.curve))}
    return {
        "counts": {
            "train": len(findings.samples),
            "validation": len(findings.validation),
            "wrong": int(findings.is_wrong.sum()),
        },
        "metric": scores.metric,
        "models": [
            {"name": name, "features": p, "validation": each.mean(), "training": train}
            for name, p, each, train in rows
        ],
        "features": {
            "n": monomials.n_features,
            "degree": int(monomials.degree.max()),
            "window": monomials.window,
            "live": None if fit is None else len(fit.live),
        },
        "fit": fitted,
        "spread_by_degree": dict(spreads),
    }


def _ridge_figure(path: RidgePath) -> Figure:
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


def _batch_figure(curve: BatchCurve) -> Figure:
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
    """The predicted class and the second most probable, or the target: what each part adds."""
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
        total = f"{_signed(float(shares[:, k].sum()))} besides the constant, each product divided "
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
