"""What `datassay sample` writes beside its page: points as a table and as arrays, and a summary."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

import numpy as np

from datassay.commands.sample.findings import SamplingFindings, verdicts
from datassay.report.page import Page
from datassay.report.tables import standard_json
from datassay.store.outputs import Part

FILES = {
    "samples.parquet": "every point, and which are new",
    "samples.npz": "the points as x and y",
    "summary.json": "the figures above",
}


def files(findings: SamplingFindings, page: Page) -> dict[str, Part]:
    """A row a point: inputs and outputs by name, is_new, and taylor_index, null for new points."""
    names = [*findings.inputs, *findings.outputs, "is_new", "taylor_index"]
    samples = findings.sample.to_samples(findings.name)
    arrays = {"x": samples.x, "y": samples.y, "source": samples.source}
    return {
        "samples.parquet": findings.sample.to_table().rename_columns(names),
        "samples.npz": partial(np.savez, **arrays),
        "summary.json": standard_json(page.head | _summary(findings)),
    }


def _summary(findings: SamplingFindings) -> dict[str, object]:
    sample, density = findings.sample, findings.sample.density
    return {
        "function": findings.name,
        "inputs": findings.inputs,
        "outputs": findings.outputs,
        "domain": sample.domain,
        "initial": len(sample.index),
        "new": findings.n_new,
        "order": sample.order,
        "epsilon": sample.epsilon,
        "derivatives": sample.derivatives,
        "acceptance": sample.acceptance,
        "tries": sample.tries,
        "mixture": {
            "weight": density.weight,
            "mean": density.mean,
            "covariance": density.covariance,
            "fitted_points": density.n_fitted,
            "converged": density.converged,
        },
        "comparison": _comparison(findings),
        "bounds": [
            {"lipschitz": bounds.initial.lipschitz}
            | {name: getattr(bounds, name).total for name in ("initial", "uniform", "taylor")}
            for bounds in findings.bounds
        ]
        or None,
    }


def _comparison(findings: SamplingFindings) -> dict[str, object] | None:
    comparison = findings.comparison
    if comparison is None:
        return None
    return {
        "designs": comparison.names,
        "points": comparison.n_points,
        "test_points": comparison.n_test,
        "root_mean_square": comparison.root_mean_square,
        "largest": comparison.largest,
        "errors": [asdict(v) | {"outcome": v.outcome} for v in verdicts(comparison)],
    }
