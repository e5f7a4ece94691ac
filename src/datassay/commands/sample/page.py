"""The page of a sampling: its tables; `text/sample.md.j2` says the rest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from datassay.commands.sample import figures
from datassay.commands.sample.files import FILES
from datassay.commands.sample.findings import SamplingFindings, Verdict, verdicts
from datassay.report.advice import most_urgent_first
from datassay.report.compose import compose
from datassay.report.page import Page, Row, Table
from datassay.report.wording import number

# Below this share of draws inside the domain the density is mostly elsewhere.
LOW_ACCEPTANCE = 0.2
# Above this share of the highest order in Df, ε reaches further than the expansion.
HIGH_ORDER = 0.5


def page(findings: SamplingFindings) -> Page:
    """Everything that the command says."""
    sample, comparison = findings.sample, findings.comparison
    numbers = {
        "findings": findings,
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
        blocks["errors"] = _errors((largest, mean))
        blocks |= {n: figures.error_figure(comparison, n) for n in ("largest", "root_mean_square")}
    if findings.bounds:
        blocks |= {"bound": figures.bound_figure(findings), "gain": figures.gain_figure(findings)}
        blocks["totals"] = _totals(findings)
    page = compose(
        "sample", blocks, numbers, facts=findings.facts, warnings=findings.warnings, files=FILES
    )
    return replace(page, advice=most_urgent_first(page.advice))


def _interval(pair: tuple[float, float]) -> str:
    return f"{number(float(pair[0]))} ± {number(float(pair[1]))}"


def _mixture(findings: SamplingFindings) -> Table:
    """The components of the density, largest first: share, mean ± standard deviation."""
    density, rows = findings.sample.density, []
    for place, k in enumerate(np.argsort(-density.weight, kind="stable"), 1):
        deviation = np.sqrt(np.diag(density.covariance[k]))
        cells = [_interval(pair) for pair in zip(density.mean[k], deviation, strict=True)]
        rows.append(Row(str(place), (f"{100 * density.weight[k]:.1f} %", *cells)))
    columns = ("component", "share", *findings.inputs)
    return Table("Density", columns, tuple(rows))


def _errors(verdicts: tuple[Verdict, ...]) -> Table:
    """Both errors under both designs, and the change run by run."""
    rows = []
    for verdict in verdicts:
        change, half = (100 * value for value in verdict.difference)
        cells = (_interval(verdict.uniform), _interval(verdict.taylor))
        rows.append(Row(verdict.error, (*cells, f"{change:+.1f} ± {half:.1f} %".replace("-", "−"))))
    columns = ("error", "uniform", "Taylor-based", "change")
    return Table("Errors", columns, tuple(rows), in_terminal=True)


def _totals(findings: SamplingFindings) -> Table:
    """The bound before and after, at both Lipschitz constants, and the mean gain of one point."""
    rows = []
    for bounds in findings.bounds:
        totals = (bounds.initial.total, bounds.uniform.total, bounds.taylor.total)
        k = number(bounds.initial.lipschitz)
        rows.append(Row(f"bound, K = {k}", tuple(number(total) for total in totals)))
        gains = (float(np.mean(g)) for g in (bounds.gain_uniform, bounds.gain_taylor))
        rows.append(Row("lowered by a point alone, mean", ("–", *(number(g) for g in gains))))
    columns = ("", "initial points", "and uniform ones", "and Taylor-based ones")
    return Table("Bound", columns, tuple(rows))
