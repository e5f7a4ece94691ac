"""Scores as tables with a row per sample, to join to the user's data by id; and their sections."""

from typing import Any

import numpy as np
import pyarrow as pa

from datassay.commands.run.findings import Findings
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.optional import coalesce
from datassay.report import plots
from datassay.report.page import Figure, Row, Section, Table, Text
from datassay.report.tables import column, effect_table, labels
from datassay.results import Meaning, columns_of, table_of, with_meanings
from datassay.score.effects import EFFECTS
from datassay.score.registry import Score

# Columns that no score computes: they come from the samples themselves.
GIVEN = {
    "id": Meaning("the sample's id"),
    "label": Meaning("the given label: index of a class, or target"),
    "class_name": Meaning("the given label"),
    "source": Meaning("where the sample came from"),
    "is_adversarial": Meaning("whether the input was replaced on purpose"),
    "true_label": Meaning("the label before noise was added"),
}
BINS, ENDS = 40, 5  # of a histogram; samples shown at each end of a score
QUARTILES = {"least": 0, "lower_quartile": 0.25, "median": 0.5, "upper_quartile": 0.75, "most": 1}


def score_table(findings: Findings) -> pa.Table:
    """Return every sample's labels and scores.

    Returns:
        One row per sample, in the samples' order: `id`, `label` (index of the class, or target) and
        `class_name`; the columns that each result declares; `source`, `is_adversarial` and
        `true_label` where they are known. Labels are names where there are classes, lists where
        there are several targets. What each column holds, its unit and its sign stand in the
        metadata of its field.

    Raises:
        SettingError: two scores name a column alike.
    """
    f = findings
    samples = findings.samples
    names = {}
    if samples.is_classification:
        names = {"class_name": labels(samples, samples.y)}
    identity = {"id": column(samples.ids), "label": column(samples.y), **names}
    scores = (f.issues, f.information, f.leave_one_out, f.average, f.influence)
    scores += (f.information.steady_state, f.information.divergence, f.data_issues)
    provenance = {}
    if samples.source is not None:
        provenance = {"source": column(samples.source)}
    if f.adversarial is not None:
        provenance["is_adversarial"] = pa.array(f.adversarial)
    truth = {}
    if samples.true_y is not None:
        truth = {"true_label": labels(samples, samples.true_y)}
    result, *tables = (
        with_meanings(pa.table(identity), GIVEN),
        table_of(*scores, joint=True),
        with_meanings(pa.table(provenance), GIVEN),
        table_of(f.baselines, joint=True),
        with_meanings(pa.table(truth), GIVEN),
        *(table_of(score, joint=True) for score in f.scores.values()),
    )
    for table in tables:
        for field, values in zip(table.schema, table.columns, strict=True):
            if field.name != "id" and field.name in result.column_names:
                raise SettingError(
                    f"a column must have one name in scores.parquet; two scores name theirs "
                    f"{field.name}. Update or uninstall the package that adds one of them."
                )
            if field.name != "id":
                result = result.append_column(field, values)
    return result


def attribution_table(findings: Findings) -> pa.Table:
    """Return the largest effects on each query; no rows where no attribution was asked for."""
    if findings.attribution is not None:
        return effect_table(findings.attribution, findings.queries)
    names = ("query", "query_id", "direction", "rank", "id", "effect", "of")
    types = (pa.int64(), column(findings.samples.ids).type, pa.string(), pa.int64())
    types += (types[1], pa.float64(), pa.string())
    empty_table = pa.schema(list(zip(names, types, strict=True))).empty_table()
    return with_meanings(empty_table, EFFECTS)


def score_section(score: Score, samples: SampleSet, result: Any) -> Section:
    """Return the section of a score: its own, or histograms and the samples at both ends."""
    if score.section is not None:
        return score.section(samples, result)
    meanings = columns_of(result, joint=True)
    rows = [Row(name, (m.meaning, m.unit, m.sign)) for name, m in meanings.items()]
    parts: list[Any] = [Text(score.help)]
    for name, values in _numbers(result).items():
        if meanings[name].unit:
            title = f"{name}, {meanings[name].unit}"
        else:
            title = name
        figure = plots.chart(title, "samples", showlegend=False)
        finite = values[np.isfinite(values)]
        if not len(finite):
            continue
        plots.histogram(figure, finite, np.histogram_bin_edges(finite, BINS))
        order = np.argsort(-values, kind="stable")
        order = order[np.isfinite(values[order])]
        if len(order) <= 2 * ENDS:
            ends = order
        else:
            ends = np.r_[order[:ENDS], order[-ENDS:]]
        digits = meanings[name].digits
        table_rows = tuple(Row(str(samples.ids[i]), (f"{values[i]:.{digits}g}",)) for i in ends)
        parts += [
            Figure(f"{score.name}-{name}", figure, f"Histogram of {name}", title=name),
            Table(f"Samples with the highest and the lowest {name}", ("id", name), table_rows),
        ]
    columns = ("column", "what it holds", "unit", "sign")
    parts.append(Table(f"Columns of {score.name} in scores.parquet", columns, tuple(rows)))
    title = score.name.replace("_", " ").capitalize()
    return Section(score.name, title, title, tuple(parts))


def score_summary(result: Any) -> dict[str, dict[str, Any]]:
    """Return column → meaning and, of numbers, quartiles of finite values, for summary.json."""
    summary: dict[str, dict[str, Any]] = {
        name: {"meaning": m.meaning, "unit": m.unit, "sign": m.sign}
        for name, m in columns_of(result, joint=True).items()
    }
    for name, values in _numbers(result).items():
        finite = values[np.isfinite(values)]
        if len(finite):
            quartiles = np.quantile(finite, list(QUARTILES.values())).tolist()
            summary[name] |= dict(zip(QUARTILES, quartiles, strict=True))
    return summary


def _numbers(result: Any) -> dict[str, np.ndarray]:
    """Return the columns of numbers as floats, without the ids; null becomes nan."""
    table = table_of(result, joint=True)
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    names = [
        field.name
        for field in table.schema
        if field.name != "id" and any(is_kind(field.type) for is_kind in kinds)
    ]
    return {
        name: np.array([coalesce(v, np.nan) for v in table[name].to_pylist()], float)
        for name in names
    }
