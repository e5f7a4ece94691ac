"""Rows with a suspected target of which an input looks wrong instead, or is swapped with it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.types as pt
from jaxtyping import Bool, Float

from datassay.data.samples import SampleSet
from datassay.results import result
from datassay.score.checks.codes import to_comparable
from datassay.score.checks.units import suggest_units
from datassay.score.labels.issues import LabelIssues

# A number is strange if it lies further from the middle 98 % of the others than half their width;
# where these are positive, on a logarithmic scale too. Of a normal law that is 4.7 deviations. So
# is 0 or less where nearly all are above a tenth of the median, as sizes are.
TAIL = 0.01
BEYOND = 0.5
ABOVE_ZERO = 0.1
FEWEST_ROWS, FEWEST_VALUES = 30, 15  # that tell what is usual


@result
class _UsualRange:
    """A column of numbers: most lie from low to high; below lower or above upper is strange."""

    name: str
    values: Float[np.ndarray, " n"]
    low: float
    high: float
    lower: float
    upper: float


def mark_cells(issues: LabelIssues, data: SampleSet | Any) -> LabelIssues:
    """Return the issues with suspicious input cells and unit mix-ups named.

    Rows of `cells` keep their given target as the suggestion.
    """
    if not isinstance(data, SampleSet) or data.is_classification or data.y.ndim > 1:
        return issues
    issues = suggest_units(issues)
    cells = strange_cells(data, issues.is_issue, issues.worth_a_look)
    suggested = issues.suggested_label.copy()
    rows = list(cells)
    suggested[rows] = issues.given_label[rows]
    factors = {row: f for row, f in issues.unit_factors.items() if row not in cells}
    return replace(issues, suggested_label=suggested, cells=cells, unit_factors=factors)


def strange_cells(
    samples: SampleSet, suspects: Bool[np.ndarray, " n"], worth_a_look: Bool[np.ndarray, " n"]
) -> dict[int, str]:
    """Return {row: words on the input cells that look wrong}, of rows worth a look."""
    # Rows without a suspected target tell what is usual. Two values are swapped if each would lie
    # where the other's column has most of its own.
    columns = _read_numbers(samples)
    usual = [_find_range(name, values, ~suspects) for name, values in columns.items()]
    name = next((c.name for c in samples.columns if c.read_as == "target"), "the target")
    target = _find_range(name, np.asarray(samples.y, np.float64), ~suspects)
    messages: dict[int, str] = {}
    for row in np.flatnonzero(worth_a_look).tolist():
        strange_columns = [
            c for c in usual if c and (c.values[row] < c.lower or c.values[row] > c.upper)
        ]
        candidates = strange_columns
        if target and suspects[row]:
            candidates = [*strange_columns, target]
        if strange_columns:
            cells = [_describe_cell(column, candidates, row) for column in strange_columns]
            messages[row] = "; ".join(dict.fromkeys(cells))
    return messages


def _describe_cell(column: _UsualRange, candidates: list[_UsualRange], row: int) -> str:
    """Return words on a cell: out of range, or swapped with another column's."""
    cell = f"{column.name} {column.values[row]:g}"
    for candidate in candidates:
        pairs = ((column, candidate.values[row]), (candidate, column.values[row]))
        if candidate is not column and all(c.low <= value <= c.high for c, value in pairs):
            swapped = sorted([cell, f"{candidate.name} {candidate.values[row]:g}"])
            return f"{swapped[0]} and {swapped[1]} look swapped"
    return f"{cell}, of most {column.low:g} to {column.high:g}"


def _read_numbers(samples: SampleSet) -> dict[str, Float[np.ndarray, " n"]]:
    """Return {column: values [n]} of numeric columns; missing ones are nan."""
    if samples.kind != "row":
        return {}
    if samples.rows is None:
        flat = np.asarray(samples.x, np.float64).reshape(len(samples), -1)
        names = samples.feature_names or [f"x{j}" for j in range(flat.shape[1])]
        return dict(zip(names, flat.T, strict=True))
    numbers = [c.name for c in samples.columns if c.read_as == "number"]
    columns = {name: to_comparable(samples.rows[name]) for name in numbers}
    return {name: c.to_numpy() for name, c in columns.items() if pt.is_floating(c.type)}


def _find_range(
    name: str, values: Float[np.ndarray, " n"], mask: Bool[np.ndarray, " n"]
) -> _UsualRange | None:
    """Return the range in which most of the masked values lie; None if too few or constant."""
    finite = values[mask & np.isfinite(values)]
    if len(finite) < FEWEST_ROWS or len(np.unique(finite)) < FEWEST_VALUES:
        return None
    low, middle, high = np.quantile(finite, [TAIL, 0.5, 1 - TAIL]).tolist()
    lower = low - BEYOND * (high - low)
    upper = high + BEYOND * (high - low)
    if low > 0:
        factor = (high / low) ** BEYOND
        lower = min(lower, low / factor)
        upper = max(upper, high * factor)
    if low > ABOVE_ZERO * middle > 0:
        lower = max(lower, float(np.finfo(float).tiny))
    return _UsualRange(name, values, low, high, lower, upper)
