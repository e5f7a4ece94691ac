"""What any score shows: what its columns hold, their spread, and the samples at their ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from datassay.data.samples import SampleSet
from datassay.report import plots
from datassay.report.page import Figure, Row, Section, Table, Text
from datassay.results import Meaning, columns_of, table_of
from datassay.score.registry import Score

BINS, ENDS = 40, 5


def score_section(score: Score, samples: SampleSet, result: Any) -> Section:
    """The section of a score: its own, or else histograms and the samples at both ends.

    Args:
        score: that was computed.
        samples: the training samples.
        result: of the score, a value a sample.

    Returns:
        The section; its anchor is the score's name.
    """
    if score.section is not None:
        return score.section(samples, result)
    about, table = columns_of(result, joint=True), table_of(result, joint=True)
    rows = [Row(name, (one.meaning, one.unit, one.sign)) for name, one in about.items()]
    parts: list[Any] = [Text(score.help)]
    for name, values in _numbers(table).items():
        title = f"{name}, {about[name].unit}" if about[name].unit else name
        figure = plots.chart(title, "samples", showlegend=False)
        finite = values[np.isfinite(values)]
        if len(finite):
            plots.histogram(figure, finite, np.histogram_bin_edges(finite, BINS))
        drawn = Figure(f"{score.name}-{name}", figure, f"Histogram of {name}", title=name)
        parts += [drawn, _ends(name, about[name], values, samples.ids)]
    columns = ("column", "what it holds", "unit", "sign")
    parts.append(Table(f"Columns of {score.name} in scores.parquet", columns, tuple(rows)))
    title = score.name.replace("_", " ").capitalize()
    return Section(score.name, title, title, tuple(parts))


def score_summary(result: Any) -> dict[str, dict[str, Any]]:
    """Column → what it holds and, of numbers, its quartiles and ends; for summary.json.

    Args:
        result: of a score.

    Returns:
        In the order of the columns; quartiles of what is finite.
    """
    summary: dict[str, dict[str, Any]] = {
        name: {"meaning": one.meaning, "unit": one.unit, "sign": one.sign}
        for name, one in columns_of(result, joint=True).items()
    }
    for name, values in _numbers(table_of(result, joint=True)).items():
        finite = values[np.isfinite(values)]
        if len(finite):
            quartiles = np.quantile(finite, (0, 0.25, 0.5, 0.75, 1)).tolist()
            names = ("least", "lower_quartile", "median", "upper_quartile", "most")
            summary[name] |= dict(zip(names, quartiles, strict=True))
    return summary


def _numbers(table: pa.Table) -> dict[str, np.ndarray]:
    """The columns of numbers, without the ids; null is nan."""
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    names = [f.name for f in table.schema if f.name != "id" and any(is_(f.type) for is_ in kinds)]
    return {
        name: np.array([np.nan if v is None else v for v in table[name].to_pylist()], float)
        for name in names
    }


def _ends(name: str, about: Meaning, values: np.ndarray, ids: np.ndarray) -> Table:
    """The samples with the highest and the lowest values."""
    order = np.argsort(-values, kind="stable")
    order = order[np.isfinite(values[order])]
    chosen = order if len(order) <= 2 * ENDS else np.r_[order[:ENDS], order[-ENDS:]]
    rows = (Row(str(ids[i]), (f"{values[i]:.{about.digits}g}",)) for i in chosen)
    return Table(f"Samples with the highest and the lowest {name}", ("id", name), tuple(rows))
