"""What `datassay polynomial` writes beside its page: predictions, coefficients, model, summary."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

import numpy as np
import pyarrow as pa

from datassay.commands.polynomial.findings import PolynomialFindings, term_names
from datassay.polynomial.fit import PolynomialFit
from datassay.polynomial.surrogate import save_surrogate
from datassay.report.page import Page
from datassay.report.tables import column, labels, standard_json
from datassay.store.outputs import Part

FILES = {
    "predictions.parquet": "each validation sample's outputs",
    "coefficients.parquet": "every coefficient",
    "polynomial.safetensors": "the fit",
    "summary.json": "the figures above",
}


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
        "product": pa.array(term_names(findings.surrogate)),
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
        "fit": None if fit is None else _fit(fit),
        "spread_by_degree": dict(spreads),
        "robustness": [row for one in findings.robustness for row in one.to_table().to_pylist()],
    }


def _fit(fit: PolynomialFit) -> dict[str, object]:
    return {
        "solver": fit.solver,
        "ridge": fit.ridge,
        "notes": fit.notes,
        "path": None if fit.path is None else asdict(fit.path),
        "curve": None if fit.curve is None else asdict(fit.curve),
    }
