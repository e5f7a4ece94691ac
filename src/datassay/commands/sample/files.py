"""The files of a sampling: points as a table and as arrays, summary and page."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from datassay.commands.sample.advice import sampling_advice
from datassay.commands.sample.findings import SamplingFindings, verdicts
from datassay.commands.sample.page import render_sampling_page
from datassay.report.tables import standard_json
from datassay.report.write import write_files

SAMPLING_FILES = ("samples.parquet", "samples.npz", "summary.json", "index.html")


def write_sampling(findings: SamplingFindings, out: Path) -> Path:
    """Write SAMPLING_FILES into a folder, all of them or none.

    Args:
        findings: one sampling.
        out: the folder; made where it does not exist.

    Returns:
        The path of the page.

    Raises:
        SettingError: the folder cannot be written, or the disk is full.
    """
    table, summary = sample_table(findings), sampling_summary(findings)
    page = render_sampling_page(findings)
    samples = findings.found.to_samples(findings.name)
    assert samples.source is not None
    source = samples.source
    writers = (
        lambda to: pq.write_table(table, to),
        lambda to: np.savez(to, x=samples.x, y=samples.y, source=source),
        lambda to: to.write_text(summary, "utf-8"),
        lambda to: to.write_text(page, "utf-8"),
    )
    write_files(dict(zip(SAMPLING_FILES, writers, strict=True)), out)
    return out / "index.html"


def sample_table(findings: SamplingFindings) -> pa.Table:
    """Every point.

    Args:
        findings: one sampling.

    Returns:
        One row a point: the inputs and outputs by name, is_new, and taylor_index, null for the new
        points.
    """
    names = [*findings.inputs, *findings.outputs, "is_new", "taylor_index"]
    return findings.found.to_table().rename_columns(names)


def sampling_summary(findings: SamplingFindings) -> str:
    """The sampling in figures.

    Args:
        findings: one sampling.

    Returns:
        JSON text.
    """
    found, density = findings.found, findings.found.density
    return standard_json({
        "facts": findings.facts,
        "warnings": findings.warnings,
        "advice": [asdict(a) for a in sampling_advice(findings)],
        "function": findings.name,
        "inputs": findings.inputs,
        "outputs": findings.outputs,
        "domain": found.domain,
        "initial": len(found.index),
        "new": int(found.is_new.sum()),
        "order": found.order,
        "epsilon": found.epsilon,
        "derivatives": found.derivatives,
        "acceptance": found.acceptance,
        "tries": found.tries,
        "mixture": {
            "weight": density.weight,
            "mean": density.mean,
            "covariance": density.covariance,
            "fitted_points": density.n_fitted,
            "converged": density.converged,
        },
        "comparison": _comparison(findings),
        "bounds": [
            {
                "lipschitz": bounds.initial.lipschitz,
                "initial": bounds.initial.total,
                "uniform": bounds.uniform.total,
                "taylor": bounds.taylor.total,
            }
            for bounds in findings.bounds
        ]
        or None,
    })


def _comparison(findings: SamplingFindings) -> dict[str, object] | None:
    found = findings.comparison
    if found is None:
        return None
    return {
        "designs": found.names,
        "points": found.n_points,
        "test_points": found.n_test,
        "root_mean_square": found.root_mean_square,
        "largest": found.largest,
        "errors": [asdict(v) | {"outcome": v.outcome} for v in verdicts(found)],
    }
