"""Rows with a suspected target of which an input looks wrong instead, or is swapped with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.types as pt
from jaxtyping import Bool, Float

from datassay.data.samples import SampleSet
from datassay.results import result
from datassay.score.checks.codes import comparable
from datassay.score.labels.issues import LabelIssues

# A number is strange that lies further from the middle 98 % of the others than half their width, on
# both scales where all are positive: of a normal distribution 4.7 standard deviations. So is 0 or
# less where nearly all are above a tenth of the median, as sizes are.
TAIL, BEYOND, ABOVE_ZERO = 0.01, 0.5, 0.1
FEWEST_ROWS, FEWEST_VALUES = 30, 15  # that tell what is usual


@result
class _Usual:
    """A column of numbers: most lie from `low` to `high`, strange ones beyond `least` or `most`."""

    name: str
    values: Float[np.ndarray, " n"]
    low: float
    high: float
    least: float
    most: float


def mark_cells(issues: LabelIssues, data: SampleSet | Any) -> LabelIssues:
    """Mark targets beside an input that looks wrong, which stay as given; of rows alone."""
    if not isinstance(data, SampleSet) or data.is_classification or data.y.ndim > 1:
        return issues
    cells = strange_cells(data, issues.is_issue, issues.worth_a_look)
    suggested, rows = issues.suggested_label.copy(), list(cells)
    suggested[rows] = issues.given_label[rows]
    return replace(issues, suggested_label=suggested, cells=cells)


def strange_cells(
    samples: SampleSet, suspects: Bool[np.ndarray, " n"], look: Bool[np.ndarray, " n"]
) -> dict[int, str]:
    """Return what looks wrong in the inputs of rows to look at, by position."""
    # Rows without a suspected target tell what is usual. Swapped are two values that would each lie
    # where the other's column has most of its own.
    usual = [_usual(name, values, ~suspects) for name, values in _numbers(samples).items()]
    name = next((c.name for c in samples.columns if c.read_as == "target"), "the target")
    target = _usual(name, np.asarray(samples.y, np.float64), ~suspects)
    found: dict[int, str] = {}
    for i in np.flatnonzero(look).tolist():
        strange = [c for c in usual if c and (c.values[i] < c.least or c.values[i] > c.most)]
        others = [*strange, target] if target and suspects[i] else strange
        if strange:
            found[i] = "; ".join(dict.fromkeys(_told(column, others, i) for column in strange))
    return found


def _told(column: _Usual, others: list[_Usual], i: int) -> str:
    """Return what is wrong with a cell: which other's value it is swapped with, or its size."""
    told = f"{column.name} {column.values[i]:g}"
    for other in others:
        pairs = ((column, other.values[i]), (other, column.values[i]))
        if other is not column and all(one.low <= value <= one.high for one, value in pairs):
            both = sorted([told, f"{other.name} {other.values[i]:g}"])
            return f"{both[0]} and {both[1]} look swapped"
    return f"{told}, of most {column.low:g} to {column.high:g}"


def _numbers(samples: SampleSet) -> dict[str, Float[np.ndarray, " n"]]:
    """Return the columns of numbers, missing values as nan."""
    if samples.kind != "row":
        return {}
    if samples.rows is None:
        flat = np.asarray(samples.x, np.float64).reshape(len(samples), -1)
        names = samples.feature_names or [f"x{j}" for j in range(flat.shape[1])]
        return dict(zip(names, flat.T, strict=True))
    numbers = [c.name for c in samples.columns if c.read_as == "number"]
    columns = {name: comparable(samples.rows[name]) for name in numbers}
    return {name: c.to_numpy() for name, c in columns.items() if pt.is_floating(c.type)}


def _usual(
    name: str, values: Float[np.ndarray, " n"], others: Bool[np.ndarray, " n"]
) -> _Usual | None:
    """Return where most of the others' values lie; None where they are few or hardly differ."""
    known = values[others & np.isfinite(values)]
    if len(known) < FEWEST_ROWS or len(np.unique(known)) < FEWEST_VALUES:
        return None
    low, middle, high = np.quantile(known, [TAIL, 0.5, 1 - TAIL]).tolist()
    least, most = low - BEYOND * (high - low), high + BEYOND * (high - low)
    if low > 0:
        factor = (high / low) ** BEYOND
        least, most = min(least, low / factor), max(most, high * factor)
    if low > ABOVE_ZERO * middle > 0:
        least = max(least, float(np.finfo(float).tiny))
    return _Usual(name, values, low, high, least, most)
