"""The page and files of a sampling; `text/sample.md.j2` says the rest."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from datassay.act.sample.comparison import SamplingComparison
from datassay.commands.frame import composed, table
from datassay.commands.sample import figures
from datassay.commands.sample.job import SamplingFindings
from datassay.report.page import Page, Table
from datassay.report.tables import standard_json
from datassay.report.wording import number
from datassay.stats import BETTER, SAME, WORSE, mean_interval
from datassay.store.outputs import Part

FILES = {
    "samples.parquet": "every point, and which are new",
    "samples.npz": "the points as x and y",
    "summary.json": "the figures above",
}
# Below this share of draws inside the domain the density is mostly elsewhere.
LOW_ACCEPTANCE = 0.2
# Above this share of the highest order in Df, ε reaches further than the expansion.
HIGH_ORDER = 0.5
TOLD = ("order", "epsilon", "derivatives", "acceptance", "tries")
# What a verdict on the points says of an error.
OUTCOMES = {BETTER: "lower", WORSE: "higher", SAME: "unclear"}


def page(findings: SamplingFindings) -> Page:
    """Everything that the command says."""
    sample, comparison = findings.sample, findings.comparison
    numbers: dict[str, object] = {
        "n_components": len(sample.density.weight),
        "last_term": float(sample.terms[:, -1].sum() / sample.index.sum()),
        "low_acceptance": LOW_ACCEPTANCE,
        "high_order": HIGH_ORDER,
    }
    blocks: dict[str, object] = {"density": _mixture(findings)}
    if len(findings.inputs) > 1:
        blocks |= {"index": figures.index_map(findings), "new": figures.new_map(findings)}
    else:
        blocks["function"] = figures.function_figure(findings)
    if comparison is not None:
        mean, largest = verdicts(comparison)
        numbers |= {"mean": mean, "largest": largest, "n_runs": comparison.largest.shape[1]}
        rows = [_error_row(one) for one in (largest, mean)]
        columns = ("error", "uniform", "Taylor-based", "change")
        blocks["errors"] = table("Errors", columns, rows, in_terminal=True)
        blocks |= {n: figures.error_figure(comparison, n) for n in ("largest", "root_mean_square")}
    if findings.bounds:
        blocks |= {"bound": figures.bound_figure(findings), "gain": figures.gain_figure(findings)}
        blocks["totals"] = _totals(findings)
    return composed("sample", findings, blocks, numbers, FILES, urgent_first=True)


def verdicts(comparison: SamplingComparison) -> list[dict[str, Any]]:
    """Root mean square, then largest error, under both designs.

    Returns:
        Mean and half interval of each, and of the `difference`, Taylor-based minus uniform run by
        run as a share of the uniform mean; `outcome`: where its interval lies.
    """
    found = []
    for name in ("root_mean_square", "largest"):
        uniform, taylor = getattr(comparison, name)
        change = (taylor - uniform) / (uniform.mean() or 1.0)
        means = {"uniform": uniform, "taylor": taylor, "difference": change}
        one: dict[str, Any] = {"error": name.replace("_", " ")}
        for key, interval in ((key, mean_interval(values)) for key, values in means.items()):
            one[key] = (interval.gain, interval.half)
        verdict = mean_interval(-change).verdict
        found.append(one | {"verdict": verdict, "outcome": OUTCOMES[verdict]})
    return found


def _interval(pair: tuple[float, float]) -> str:
    return f"{number(float(pair[0]))} ± {number(float(pair[1]))}"


def _error_row(verdict: dict[str, Any]) -> tuple[str, ...]:
    """An error under both designs, and the change run by run."""
    change, half = (100 * value for value in verdict["difference"])
    text = f"{change:+.1f} ± {half:.1f} %".replace("-", "−")
    return verdict["error"], _interval(verdict["uniform"]), _interval(verdict["taylor"]), text


def _mixture(findings: SamplingFindings) -> Table:
    """The components of the density, largest first: share, mean ± standard deviation."""
    density, rows = findings.sample.density, []
    for place, k in enumerate(np.argsort(-density.weight, kind="stable"), 1):
        deviation = np.sqrt(np.diag(density.covariance[k]))
        cells = map(_interval, zip(density.mean[k], deviation, strict=True))
        rows.append((str(place), f"{100 * density.weight[k]:.1f} %", *cells))
    return table("Density", ("component", "share", *findings.inputs), rows)


def _totals(findings: SamplingFindings) -> Table:
    """The bound before and after, at both Lipschitz constants, and the mean gain of one point."""
    rows = []
    for bounds in findings.bounds:
        totals = (bounds.initial.total, bounds.uniform.total, bounds.taylor.total)
        rows.append((f"bound, K = {number(bounds.initial.lipschitz)}", *map(number, totals)))
        gains = (number(float(np.mean(g))) for g in (bounds.gain_uniform, bounds.gain_taylor))
        rows.append(("lowered by a point alone, mean", "–", *gains))
    columns = ("", "initial points", "and uniform ones", "and Taylor-based ones")
    return table("Bound", columns, rows)


def files(findings: SamplingFindings, page: Page) -> dict[str, Part]:
    """A row a point: inputs and outputs by name, is_new, and taylor_index, null for new points."""
    sample, density, comparison = findings.sample, findings.sample.density, findings.comparison
    samples = sample.to_samples(findings.name)
    compared = None
    if comparison is not None:
        compared = {
            "designs": comparison.names,
            "points": comparison.n_points,
            "test_points": comparison.n_test,
            "root_mean_square": comparison.root_mean_square,
            "largest": comparison.largest,
            "errors": verdicts(comparison),
        }
    bounds = [
        {"lipschitz": bounds.initial.lipschitz}
        | {name: getattr(bounds, name).total for name in ("initial", "uniform", "taylor")}
        for bounds in findings.bounds
    ]
    summary = {
        "function": findings.name,
        "inputs": findings.inputs,
        "outputs": findings.outputs,
        "domain": sample.domain,
        "initial": len(sample.index),
        "new": findings.n_new,
        **{name: getattr(sample, name) for name in TOLD},
        "mixture": {
            "weight": density.weight,
            "mean": density.mean,
            "covariance": density.covariance,
            "fitted_points": density.n_fitted,
            "converged": density.converged,
        },
        "comparison": compared,
        "bounds": bounds or None,
    }
    names = [*findings.inputs, *findings.outputs, "is_new", "taylor_index"]
    return {
        "samples.parquet": sample.to_table().rename_columns(names),
        "samples.npz": partial(np.savez, x=samples.x, y=samples.y, source=samples.source),
        "summary.json": standard_json(page.head | summary),
    }
