"""The page and files of a polynomial surrogate; its text stands in `page.md.j2`."""

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from datassay.commands.frame import change_cells, compose_page, named_folder, table
from datassay.methods.polynomial.formula import short_formula
from datassay.methods.polynomial.job import PolynomialFindings
from datassay.methods.polynomial.solvers.batched import BatchCurve
from datassay.methods.polynomial.solvers.exact import RidgePath
from datassay.methods.polynomial.surrogate import SurrogateScores, save_surrogate
from datassay.optional import map_optional, text_if
from datassay.report.drawing import draw, heat_image, heat_limit
from datassay.report.page import Page, Partial, Table
from datassay.report.plots import bars, chart, level, line
from datassay.report.style import BLUE, CLASS_COLOURS, GREY, SKY, VERMILION, plotly_text
from datassay.report.tables import column, labels, standard_json
from datassay.report.wording import label_text, number, percent
from datassay.store.outputs import Part

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

TEMPLATE = Path(__file__).with_name("page.md.j2")
FILES = {
    "predictions.parquet": "each validation sample's outputs",
    "coefficients.parquet": "every coefficient",
    "polynomial.safetensors": "the fit",
    "summary.json": "the figures above",
}
MAX_OUTPUTS, MOST_BARS = len(CLASS_COLOURS), 24
N_TERMS = 6
DEGREES = ("constant", "single inputs", "pairs", "triples")
PICTURE_SIDE = 96


def page(findings: PolynomialFindings) -> Page:
    """Return the page of `datassay polynomial`."""
    scores = findings.scores
    fit = findings.fit
    spread = findings.degree_spread.mean(axis=1)  # [k]
    total = float(spread.sum()) or 1.0
    rival = len(scores.names) - 2  # the model before ours
    lead = scores.ahead_of(rival)
    cards = explained_cards(findings)
    maps = _maps(findings)
    polynomial = findings.surrogate.polynomial
    sizes = np.abs(polynomial.monomial_coef).max(axis=1)
    sizes[polynomial.monomials.degree < 2] = 0.0  # products of two inputs or more alone
    n_coefficients = len(sizes) - 1
    numbers = {
        "ours": float(scores.sample_scores[-1].mean()),
        "train": float(scores.train[-1]),
        "other": scores.names[rival],
        "before": float(scores.sample_scores[rival].mean()),
        "ahead": lead,
        "verdict": lead.verdict,
        "degree_shares": " and ".join(
            f"{_degree_name(t)} make {percent(round(float(s) / total, 2))}"
            for t, s in enumerate(spread, 1)
        ),
        "product": findings.surrogate.term_names[int(sizes.argmax())],
        "folder": named_folder(findings.facts, "polynomial"),
        "n_coefficients": n_coefficients,
        "maps": maps,
        "formula": short_formula(findings),
        "n_largest": min(n_coefficients, _n_bars(findings)),
        "most_outputs": MAX_OUTPUTS,
        "shows_wrong": any(card["is_wrong"] for card in cards),
    }
    blocks: dict[str, object] = {
        "scores": _tabulate_scores(findings),
        "gain": _plot_scores(scores),
        "coefficients": lambda: _plot_coefficients(findings),
        "apart": Partial("apart.html", {"cards": cards}),
        **{str(m["name"]): m["pictures"] for m in maps},
    }
    if fit is not None and fit.path is not None:
        blocks["ridge"] = _plot_ridges(fit.path)
    elif fit is not None and fit.curve is not None:
        blocks["batches"] = _plot_batches(fit.curve)
    page = compose_page(TEMPLATE, findings, blocks, numbers, FILES)
    facts = findings.facts
    headlines = (f"{piece.headline}." for piece in page.advice)
    return replace(page, answer=(f"{facts['Features']}; {facts['Fit']}.", *headlines))


def _maps(findings: PolynomialFindings) -> list[dict[str, object]]:
    """Return a picture per output and degree, one scale for all of a degree; [] without images."""
    if findings.maps is None:
        return []
    names = findings.surrogate.output_names
    maps = []
    for t, title, values in (
        (1, "Degree 1: single pixels", findings.maps.degree_1),
        (2, "Degree 2: pairs of pixels, at their middle", findings.maps.degree_2),
    ):
        if t == 2 and not values.any():
            continue
        limit = heat_limit(values)
        pictures = [(n, heat_image(v, limit)) for n, v in zip(names, values, strict=True)]
        partial = Partial("maps.html", {"limit": number(limit), "pictures": pictures})
        scale = {"limit": limit, "beyond": (np.abs(values) > limit).mean()}
        maps.append({"name": f"degree_{t}", "title": title, "pictures": partial, **scale})
    return maps


def _tabulate_scores(findings: PolynomialFindings) -> Table:
    """Return a table with a row per model: simpler ones, and this one last."""
    scores = findings.scores
    rows = []
    for i, name in enumerate(scores.names):
        val = _score(float(scores.sample_scores[i].mean()))
        train = _score(float(scores.train[i]))
        change = ("–", "–")
        if i < len(scores.names) - 1:  # else it is ours
            change = change_cells(scores.ahead_of(i), scores.metric)
        rows.append((name, f"{scores.n_features[i]:,}", val, train, *change))
    unit = text_if(scores.metric == "accuracy", ", points")
    columns = (
        "model", "features", f"validation {scores.metric}", f"training {scores.metric}",
        "95 % interval", f"ours better by{unit}",
    )  # fmt: skip
    return table("Scores", columns, rows, in_terminal=True)


def _plot_scores(scores: SurrogateScores) -> "Figure":
    """Return a chart of each model's validation score, the polynomial's in colour."""
    figure = chart(f"validation {scores.metric}", height=110 + 34 * len(scores.names), bargap=0.3)
    values = scores.sample_scores.mean(axis=1)[::-1]
    colours = [BLUE] + [GREY] * (len(values) - 1)
    bars(figure, values, scores.names[::-1], "", colours, "%{y}: %{x:.3f}", orientation="h")
    return figure


def _score(value: float) -> str:
    return f"{value:.3f}".replace("-0.000", "0.000").replace("-", "−")


def _plot_coefficients(findings: PolynomialFindings) -> "Figure":
    """Return a chart of the largest coefficients; of two classes those of the second."""
    surrogate = findings.surrogate
    names = surrogate.output_names[:MAX_OUTPUTS]
    coef = surrogate.polynomial.monomial_coef[1:, : len(names)]  # [p, q], without the constant
    if findings.samples.n_classes == 2:
        names, coef = names[1:], coef[:, 1:]
    largest = np.abs(coef).max(axis=1)
    order = np.argsort(-largest, kind="stable")[: _n_bars(findings)][::-1]
    products = [plotly_text(surrogate.term_names[k + 1]) for k in order]
    figure = chart(
        "coefficient", barmode="group", bargap=0.3, showlegend=len(names) > 1,
        height=110 + (18 + 8 * len(names)) * len(order),
    )  # fmt: skip
    for name, colour, values in zip(names, CLASS_COLOURS, coef[order].T, strict=False):
        bars(figure, values, products, name, colour, "%{y}: %{x:.3g}", orientation="h")
    level(figure, x=0.0, dash=None, width=1)
    return figure


def _n_bars(findings: PolynomialFindings) -> int:
    """Return how many products have their coefficients drawn."""
    return max(4, MOST_BARS // max(2, len(findings.surrogate.output_names)))


def files(findings: PolynomialFindings, page: Page) -> dict[str, Part]:
    """Return the files written with the page, by name."""
    return {
        "predictions.parquet": _tabulate_predictions(findings),
        "coefficients.parquet": _tabulate_coefficients(findings),
        "polynomial.safetensors": partial(save_surrogate, findings.surrogate),
        "summary.json": standard_json(page.head | _summarize(findings)),
    }


def _tabulate_predictions(findings: PolynomialFindings) -> pa.Table:
    """Return a row per validation sample; for `margin` see PolynomialFindings.margin."""
    val = findings.validation
    columns: dict[str, pa.Array] = {"id": column(val.ids), "label": column(val.y)}
    if val.is_classification:
        columns["class_name"] = labels(val, val.y)
        columns["predicted"] = labels(val, findings.predicted)
        columns["is_wrong"] = pa.array(findings.is_wrong)
    columns["margin"] = pa.array(findings.margin)
    return pa.table(columns | _by_output(findings, "output", findings.outputs))


def _tabulate_coefficients(findings: PolynomialFindings) -> pa.Table:
    """Return a table with a row per product: its inputs' positions and its coefficients."""
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
    """Return a table's column for each output: "prefix_name" → its values."""
    outputs = zip(findings.surrogate.output_names, values.T, strict=True)
    return {f"{prefix}_{name}": pa.array(np.ascontiguousarray(row)) for name, row in outputs}


def _summarize(findings: PolynomialFindings) -> dict[str, object]:
    """Return the content of summary.json after the page's head."""
    monomials = findings.surrogate.polynomial.monomials
    fit = findings.fit
    scores = findings.scores
    rows = zip(scores.names, scores.n_features, scores.sample_scores, scores.train, strict=True)
    spreads = zip(findings.surrogate.output_names, findings.degree_spread.T, strict=True)
    fitted: dict[str, object] | None = None
    if fit is not None:
        fitted = {"solver": fit.solver, "ridge": fit.ridge, "notes": fit.notes}
        fitted["path"] = map_optional(asdict, fit.path)
        fitted["curve"] = map_optional(asdict, fit.curve)
    return {
        "counts": {
            "train": len(findings.samples),
            "validation": len(findings.validation),
            "wrong": int(findings.is_wrong.sum()),
        },
        "metric": scores.metric,
        "models": [
            {"name": name, "features": p, "validation": values.mean(), "training": train}
            for name, p, values, train in rows
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


def _plot_ridges(path: RidgePath) -> "Figure":
    """Plot leave-one-out squared error against the ridge."""
    title = "leave-one-out squared error"
    figure = chart("ridge (log scale)", title, log_x=path.ridge, showlegend=False)
    line(
        figure, path.ridge, path.squared_error, "squared error", BLUE,
        "ridge %{x:.3g}: %{y:.4g}<extra>squared error</extra>", width=2.5, mode="lines+markers",
        marker={"size": 5},
    )  # fmt: skip
    ridge = float(path.ridge[path.chosen])
    level(figure, x=ridge, dash="dot")
    figure.add_annotation(
        x=float(np.log10(ridge)), y=1, yref="paper", yanchor="bottom", text=f"taken: {ridge:.3g}",
        showarrow=False,
    )  # fmt: skip
    figure.update_xaxes(tickangle=0)
    return figure


def _plot_batches(curve: BatchCurve) -> "Figure":
    """Return a chart of the scores after each batch whose fit is averaged."""
    figure = chart("batches", "accuracy" if curve.is_accuracy else "R²")
    for name, values, colour, dash in (
        ("average so far, validation", curve.cumulative, BLUE, "solid"),
        ("one batch alone, validation", curve.single, GREY, "dot"),
        ("average so far, in sample", curve.in_sample, VERMILION, "dash"),
        ("average so far, out of bag", curve.out_of_bag, SKY, "dashdot"),
    ):
        is_finite = np.isfinite(values)
        if is_finite.any():
            x = np.arange(1, len(values) + 1)[is_finite]
            mode = "lines"
            if is_finite.sum() < 3:
                mode = "lines+markers"
            style: Any = {"width": 2.5, "dash": dash, "mode": mode}
            line(figure, x, values[is_finite], name, colour, "%{x} batches: %{y:.3f}", **style)
    if curve.is_accuracy:
        figure.update_yaxes(tickformat=".0%")
    return figure


def explained_cards(findings: PolynomialFindings) -> list[dict[str, Any]]:
    """Return a card per explained sample, wrong predictions first, as the script takes it."""
    val = findings.validation
    class_names = val.class_names
    cards = []
    for e, drawing in enumerate(draw(val, findings.explained, PICTURE_SIDE)):
        i = int(findings.explained[e])
        label = label_text(class_names, val.y[i])
        is_wrong = bool(findings.is_wrong[i])
        caption = f"predicted {label_text((), findings.outputs[i])}, given {label}"
        if class_names:
            caption = f"predicted {class_names[int(findings.predicted[i])]}"
            caption += text_if(is_wrong, f", given {label}")
        panels = _make_panels(findings, e, findings.surrogate.term_names, findings.parts.shares[e])
        cards.append({
            "id": str(val.ids[i]),
            "caption": caption,
            "is_wrong": is_wrong,
            "drawing": drawing,
            "panels": panels,
        })
    return cards


def _make_panels(
    findings: PolynomialFindings, e: int, names: list[str], shares: Float[np.ndarray, "d q"]
) -> list[dict[str, Any]]:
    """Return bars for sample `explained[e]`: what each input adds to the outputs shown."""
    i = int(findings.explained[e])
    parts = findings.parts
    outputs = _choose_outputs(findings, i)
    shape = parts.monomials.image_shape
    pictures = [""] * len(outputs)
    if shape is not None:
        maps = [shares[:, k].reshape(shape) for k, _ in outputs]
        x = findings.validation.x
        low = float(x.min())
        span = float(x.max()) - low or 1.0
        grey = (x[i].reshape(shape).astype(float) - low) / span
        limit = heat_limit(np.stack(maps))
        pictures = [heat_image(values, limit, grey) for values in maps]
    panels = []
    for (k, title), picture in zip(outputs, pictures, strict=True):
        top = parts.top(e, k, N_TERMS)
        total = _format_total(parts.by_degree[e, :, k], float(findings.outputs[i, k]))
        bars = _make_bars([names[p] for p in top], parts.value[e, top, k])
        panels.append({"title": title, "picture": picture, "total": total, "bars": bars})
    if shape is None and len(outputs) == 1:  # a target: the same by column
        k, title = outputs[0]
        top = np.argsort(-np.abs(shares[:, k]), kind="stable")[:N_TERMS]
        total = f"{_sign(float(shares[:, k].sum()))} besides the constant, each product divided "
        bars = _make_bars([findings.surrogate.input_names[j] for j in top], shares[top, k])
        panel = {"title": f"{title}, by column", "total": f"{total}equally", "bars": bars}
        panels.append({"picture": "", **panel})
    return panels


def _make_bars(names: list[str], values: np.ndarray) -> list[dict[str, Any]]:
    """Return name, value and bar length (share of the largest) of each part."""
    largest = float(np.abs(values).max(initial=0)) or 1.0
    return [
        {"name": name, "value": _sign(v), "share": abs(v) / largest, "is_positive": v > 0}
        for name, v in zip(names, values.tolist(), strict=True)
    ]


def _choose_outputs(findings: PolynomialFindings, i: int) -> list[tuple[int, str]]:
    """Return (position, title) of the outputs explained for sample i."""
    names = findings.surrogate.output_names
    outputs = findings.outputs[i]
    if not findings.samples.is_classification:
        k = int(np.abs(outputs - findings.validation.y[i]).argmax())
        return [(k, names[k])]
    predicted = int(findings.predicted[i])
    if findings.is_wrong[i]:
        label = int(findings.validation.y[i])
        return [(predicted, f"{names[predicted]}, predicted"), (label, f"{names[label]}, given")]
    rival = int(np.argsort(-outputs, kind="stable")[1])
    return [(predicted, f"{names[predicted]}, predicted"), (rival, f"{names[rival]}, second")]


def _format_total(by_degree: np.ndarray, output: float) -> str:
    """Return the output as a sum, such as "1.2 constant +0.3 single inputs … = 1.5"."""
    constant, *products = zip(by_degree, map(_degree_name, range(len(by_degree))), strict=True)
    total = f"{_sign(float(constant[0])).removeprefix('+')} {constant[1]}"
    total += "".join(f" {_sign(float(v))} {name}" for v, name in products)
    return f"{total} = {_sign(output).removeprefix('+')}"


def _degree_name(t: int) -> str:
    return DEGREES[t] if t < len(DEGREES) else f"products of {t} inputs"


def _sign(value: float) -> str:
    return ("+" if value >= 0 else "−") + number(abs(value))
