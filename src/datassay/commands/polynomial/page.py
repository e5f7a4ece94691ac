"""The page and files of a polynomial surrogate; `text/polynomial.md.j2` says the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial

import numpy as np
import pyarrow as pa

from datassay.commands.frame import change_cells, composed, table
from datassay.commands.polynomial import figures
from datassay.commands.polynomial.job import PolynomialFindings
from datassay.polynomial.surrogate import save_surrogate
from datassay.report.drawing import heat_image, heat_limit
from datassay.report.page import Page, Partial, Table
from datassay.report.tables import column, labels, standard_json
from datassay.report.wording import number, percent
from datassay.store.outputs import Part

FILES = {
    "predictions.parquet": "each validation sample's outputs",
    "coefficients.parquet": "every coefficient",
    "polynomial.safetensors": "the fit",
    "summary.json": "the figures above",
}
N_COEF, MAX_OUTPUTS = 20, 12
SIGMA = 0.3  # S3's example


def page(findings: PolynomialFindings) -> Page:
    """Everything that the command says."""
    scores, fit = findings.scores, findings.fit
    spread = findings.degree_spread.mean(axis=1)
    total, other = float(spread.sum()) or 1.0, len(scores.names) - 2
    ahead = scores.ahead_of(other)
    cards, maps = figures.explained_cards(findings), _maps(findings)
    largest = _largest(findings)
    numbers = {
        "ours": float(scores.each[-1].mean()),
        "train": float(scores.train[-1]),
        "other": scores.names[other],
        "before": float(scores.each[other].mean()),
        "change": ahead.gain,
        "half": ahead.half,
        "verdict": ahead.verdict,
        "name": scores.names[-1],
        "degree_shares": ", ".join(
            f"degree {t} {percent(round(float(s) / total, 2))}" for t, s in enumerate(spread, 1)
        ),
        "noise": _noise(findings),
        "levels": figures.LEVELS,
        "maps": maps,
        "n_largest": len(largest.rows) - 1,
        "most_outputs": MAX_OUTPUTS,
        "shows_wrong": any(card["is_wrong"] for card in cards),
    }
    blocks: dict[str, object] = {
        "scores": _scores(findings),
        "coefficients": largest if findings.maps is None else None,
        "spread": _spread(findings),
        "apart": Partial("apart.html", {"cards": cards}),
        **{str(one["name"]): one["pictures"] for one in maps},
    }
    if fit is not None and fit.path is not None:
        blocks["ridge"] = figures.ridge_figure(fit.path)
    elif fit is not None and fit.curve is not None:
        blocks["batches"] = figures.batch_figure(fit.curve)
    for robust in findings.robustness:
        blocks[robust.corruption] = figures.level_figure(robust, lost=False)
        blocks[f"{robust.corruption}_drop"] = figures.level_figure(robust, lost=True)
    page, facts = composed("polynomial", findings, blocks, numbers, FILES), findings.facts
    headlines = (f"{piece.headline}." for piece in page.advice)
    return replace(page, answer=(f"{facts['Features']}; {facts['Fit']}.", *headlines))


def _noise(findings: PolynomialFindings) -> Mapping[str, object] | None:
    """What noise of about σ = 0.3 and the largest patch cost; None where nothing was corrupted."""
    if not findings.robustness:
        return None
    noise, patches = findings.robustness
    level = int(np.abs(noise.levels - SIGMA).argmin())
    return {
        "sigma": noise.levels[level],
        "lost": float(noise.drop[-1, level]),
        "linear": noise.drop[0, level] if len(noise.drop) > 1 else None,
        "patch": int(patches.levels[-1]),
        "patch_lost": patches.drop[-1, -1],
        "n": noise.hits.shape[2],
    }


def _maps(findings: PolynomialFindings) -> list[dict[str, object]]:
    """One picture an output and degree, where there are images; all of a degree have one scale."""
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
        change = "––" if is_ours else change_cells(ahead.gain, ahead.half, scores.metric)
        rows.append((name, f"{scores.n_features[i]:,}", val, train, *change))
    unit = ", points" if scores.metric == "accuracy" else ""
    columns = (
        "model", "features", f"validation {scores.metric}", f"training {scores.metric}",
        f"ours better by{unit}", "95 % interval",
    )  # fmt: skip
    return table("Scores", columns, rows, in_terminal=True)


def _score(value: float) -> str:
    return f"{value:.3f}".replace("-0.000", "0.000").replace("-", "−")


def _spread(findings: PolynomialFindings) -> Table:
    """What each degree adds to the outputs."""
    names, spread = findings.surrogate.output_names, findings.degree_spread
    own = "class" if findings.samples.is_classification else "target"
    columns = (own, *(f"degree {t}" for t in range(1, len(spread) + 1)))
    rows = [
        (name, *(number(float(s)) for s in of_output))
        for name, of_output in zip(names[:MAX_OUTPUTS], spread.T, strict=False)
    ]
    return table("Spread by degree", columns, rows, wraps=False)


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
    """What stands beside the page."""
    return {
        "predictions.parquet": _predictions(findings),
        "coefficients.parquet": _coefficients(findings),
        "polynomial.safetensors": partial(save_surrogate, findings.surrogate),
        "summary.json": standard_json(page.head | _summary(findings)),
    }


def _predictions(findings: PolynomialFindings) -> pa.Table:
    """One row a validation sample; margin: by how much the given label leads, see findings."""
    val = findings.validation
    columns: dict[str, pa.Array] = {"id": column(val.ids), "label": column(val.y)}
    if val.is_classification:
        columns["class_name"] = labels(val, val.y)
        columns["predicted"] = labels(val, findings.predicted)
        columns["is_wrong"] = pa.array(findings.is_wrong)
    columns["margin"] = pa.array(findings.margin)
    return pa.table(columns | _by_output(findings, "output", findings.outputs))


def _coefficients(findings: PolynomialFindings) -> pa.Table:
    """One row a product, the constant first; inputs are places, ascending, a square twice."""
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
    fitted = None
    if fit is not None:
        fitted = {"solver": fit.solver, "ridge": fit.ridge, "notes": fit.notes}
        fitted["path"] = None if fit.path is None else asdict(fit.path)
        fitted["curve"] = None if fit.curve is None else asdict(fit.curve)
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
        "robustness": [row for one in findings.robustness for row in one.to_table().to_pylist()],
    }
