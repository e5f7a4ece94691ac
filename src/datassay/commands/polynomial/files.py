"""The files of a polynomial surrogate: predictions, coefficients, the model, summary and page."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from datassay.commands.polynomial.advice import polynomial_advice
from datassay.commands.polynomial.findings import PolynomialFindings, term_names
from datassay.commands.polynomial.page import render_polynomial_page
from datassay.polynomial.fit import PolynomialFit
from datassay.polynomial.surrogate import save_surrogate
from datassay.polynomial.surrogate_score import SurrogateScores
from datassay.report.tables import column, labels, standard_json
from datassay.report.write import write_files, write_part

POLYNOMIAL_FILES = (
    "predictions.parquet",
    "coefficients.parquet",
    "polynomial.safetensors",
    "summary.json",
    "index.html",
)


def write_polynomial(findings: PolynomialFindings, out: Path) -> Path:
    """Write POLYNOMIAL_FILES into a folder, all of them or none.

    Args:
        findings: one surrogate.
        out: the folder; made where it does not exist.

    Returns:
        The path of the page.

    Raises:
        SettingError: the folder cannot be written, or the disk is full.
    """
    writers = (
        partial(write_part, prediction_table(findings)),
        partial(write_part, coef_table(findings)),
        partial(save_surrogate, findings.surrogate),
        partial(write_part, polynomial_summary(findings)),
        partial(write_part, render_polynomial_page(findings)),
    )
    write_files(dict(zip(POLYNOMIAL_FILES, writers, strict=True)), out)
    return out / "index.html"


def prediction_table(findings: PolynomialFindings) -> pa.Table:
    """What the polynomial says of every validation sample.

    Args:
        findings: one surrogate.

    Returns:
        One row a sample: id, label (class index or target), for classes class_name, predicted
        (name) and is_wrong, margin (by how much the given label leads; of targets minus the
        largest absolute error), and one column an output, `output_NAME`.
    """
    val, outputs = findings.validation, findings.outputs
    columns: dict[str, pa.Array] = {"id": column(val.ids), "label": column(val.y)}
    if val.is_classification:
        columns["class_name"] = labels(val, val.y)
        columns["predicted"] = labels(val, findings.predicted)
        columns["is_wrong"] = pa.array(findings.is_wrong)
    columns["margin"] = pa.array(findings.margin)
    for name, values in zip(findings.surrogate.output_names, outputs.T, strict=True):
        columns[f"output_{name}"] = pa.array(np.ascontiguousarray(values))
    return pa.table(columns)


def coef_table(findings: PolynomialFindings) -> pa.Table:
    """Every coefficient.

    Args:
        findings: one surrogate.

    Returns:
        One row a product, the constant first: product (text), degree, inputs (their places,
        ascending, a square twice), and one column an output, `coef_NAME`: of the product written
        once, in the inputs' own units for images, else in standard deviations.
    """
    polynomial = findings.surrogate.polynomial
    monomials = polynomial.monomials
    inputs = [[i for i in term if i >= 0] for term in monomials.terms.tolist()]
    columns: dict[str, pa.Array] = {
        "product": pa.array(term_names(findings.surrogate)),
        "degree": pa.array(monomials.degree),
        "inputs": pa.array(inputs, pa.list_(pa.int64())),
    }
    names = findings.surrogate.output_names
    for name, values in zip(names, polynomial.monomial_coef.T, strict=True):
        columns[f"coef_{name}"] = pa.array(np.ascontiguousarray(values))
    return pa.table(columns)


def polynomial_summary(findings: PolynomialFindings) -> str:
    """The surrogate in figures.

    Args:
        findings: one surrogate.

    Returns:
        JSON text.
    """
    monomials, fit, scores = findings.surrogate.polynomial.monomials, findings.fit, findings.scores
    names = findings.surrogate.output_names
    return standard_json({
        "facts": findings.facts,
        "warnings": findings.warnings,
        "advice": [asdict(a) for a in polynomial_advice(findings)],
        "counts": {
            "train": len(findings.samples),
            "validation": len(findings.validation),
            "wrong": int(findings.is_wrong.sum()),
        },
        "metric": scores.metric,
        "models": _models(scores),
        "features": {
            "n": monomials.n_features,
            "degree": int(monomials.degree.max()),
            "window": monomials.window,
            "live": None if fit is None else len(fit.live),
        },
        "fit": None if fit is None else _fit(fit),
        "spread_by_degree": dict(zip(names, findings.degree_spread.T, strict=True)),
        "robustness": [
            row for found in findings.robustness for row in found.to_table().to_pylist()
        ],
    })


def _models(scores: SurrogateScores) -> list[dict[str, object]]:
    rows = zip(scores.names, scores.n_features, scores.each, scores.train, strict=True)
    return [
        {"name": name, "features": p, "validation": each.mean(), "training": train}
        for name, p, each, train in rows
    ]


def _fit(fit: PolynomialFit) -> dict[str, object]:
    return {
        "solver": fit.solver,
        "ridge": fit.ridge,
        "notes": fit.notes,
        "path": None if fit.path is None else asdict(fit.path),
        "curve": None if fit.curve is None else asdict(fit.curve),
    }
