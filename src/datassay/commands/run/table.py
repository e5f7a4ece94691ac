"""The table of all scores: one row a sample, to join to the user's data by id."""

from __future__ import annotations

import pyarrow as pa

from datassay.commands.run.findings import Findings
from datassay.errors import SettingError
from datassay.report.tables import column, effect_table, labels
from datassay.results import Meaning, table_of, with_meanings
from datassay.score.effects import EFFECTS

# Columns that no score computes: they come from the samples themselves.
GIVEN = {
    "id": Meaning("the sample's id"),
    "label": Meaning("the given label: index of a class, or target"),
    "class_name": Meaning("the given label"),
    "source": Meaning("where the sample came from"),
    "is_adversarial": Meaning("whether the input was replaced on purpose"),
    "true_label": Meaning("the label before noise was added"),
}


def score_table(findings: Findings) -> pa.Table:
    """Every sample's labels and scores.

    Returns:
        One row a sample, in the samples' order: `id`, `label` (index of the class, or target) and
        `class_name`; the columns that each result declares; `source`, `is_adversarial` and
        `true_label` where they are known. Labels are names where there are classes, lists where
        there are several targets. What each column holds, its unit and its sign stand in the
        metadata of its field.
    """
    samples, information = findings.samples, findings.information
    names = {"class_name": labels(samples, samples.y)} if samples.is_classification else {}
    own = {"id": column(samples.ids), "label": column(samples.y), **names}
    noise = (information.steady_state, information.divergence)
    scores = (findings.issues, information, findings.leave_one_out, findings.average)
    scores += (findings.influence, *noise, findings.data_issues)
    known = {} if samples.source is None else {"source": column(samples.source)}
    if findings.adversarial is not None:
        known["is_adversarial"] = pa.array(findings.adversarial)
    truth = {} if samples.true_y is None else {"true_label": labels(samples, samples.true_y)}
    return _side_by_side(
        with_meanings(pa.table(own), GIVEN),
        table_of(*scores, joint=True),
        with_meanings(pa.table(known), GIVEN),
        table_of(findings.baselines, joint=True),
        with_meanings(pa.table(truth), GIVEN),
        *(table_of(one, joint=True) for one in findings.scores.values()),
    )


def _side_by_side(first: pa.Table, *others: pa.Table) -> pa.Table:
    """All columns; the ids of the first."""
    for table in others:
        for field, values in zip(table.schema, table.columns, strict=True):
            if field.name == "id":
                continue
            if field.name in first.column_names:
                raise SettingError(
                    f"a column must have one name in scores.parquet; two scores name theirs "
                    f"{field.name}. Update or uninstall the package that adds one of them."
                )
            first = first.append_column(field, values)
    return first


def attribution_table(findings: Findings) -> pa.Table:
    """The largest effects on each validation sample.

    Returns:
        That of `effect_table`; of training samples where none is held out, without effects on
        themselves. No rows where no attribution was asked for.
    """
    if findings.attribution is not None:
        return effect_table(findings.attribution, findings.queries)
    names = ("query", "query_id", "direction", "rank", "id", "effect", "of")
    types = (pa.int64(), column(findings.samples.ids).type, pa.string(), pa.int64())
    types += (types[1], pa.float64(), pa.string())
    none = pa.schema(list(zip(names, types, strict=True))).empty_table()
    return with_meanings(none, EFFECTS)
