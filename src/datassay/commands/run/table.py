"""The table of all scores: one row a sample, to join to the user's data by id."""

from __future__ import annotations

import pyarrow as pa

from datassay.commands.run.findings import Findings
from datassay.commands.run.meanings import EFFECTS, SCORES
from datassay.report.tables import column, effect_table, labels, with_meanings


def score_table(findings: Findings) -> pa.Table:
    """Every sample's labels and scores.

    Returns:
        One row a sample, in the samples' order. `label` is the class index or the target;
        `class_name`, `suggested_label` and `true_label` are names where there are classes, lists
        where there are several targets; `wrong_probability` is that of the given label;
        `average_information`, with its standard error, is beside random subsets, where asked for;
        `influence_*` are the moments of X(z, ·) over other samples, at the linearised ridge fit;
        `duplicate_group`, the same number for equal inputs, `nearest_id`, `nearest_distance`,
        `outlier_score` (a modified z-score minus 3.5) and `is_outlier` tell of the inputs alone;
        `loss` and `margin` are there where networks were trained, `true_label` where it is known,
        `source` where the samples have one, `is_adversarial` where some were made so, and
        `outside`, the share of a change that SGD's noise does not reach, with smoothing "sgd", and
        `information_shift` and `information_shape`, the parts of a divergence, with "kl".
        Unit and sign of each column stand in the metadata of its field.
    """
    samples, issues = findings.samples, findings.issues
    columns: dict[str, pa.Array] = {"id": column(samples.ids), "label": column(samples.y)}
    if samples.is_classification:
        columns["class_name"] = labels(samples, samples.y)
    columns |= {
        "suggested_label": labels(samples, issues.suggested_label),
        "is_issue": pa.array(issues.is_issue),
        "label_issue_score": pa.array(issues.score),
        "wrong_probability": pa.array(issues.probability),
        "information": pa.array(findings.information.information),
        "prediction_change": pa.array(findings.prediction_change),
        "weight_change": pa.array(findings.weight_change),
    }
    if findings.average is not None:
        means = findings.average.to_table()
        columns["average_information"] = means["average_information"]
        columns["average_information_error"] = means["standard_error"]
    if findings.influence is not None:
        moments = findings.influence.to_table()
        columns |= {name: moments[name] for name in moments.column_names if name != "id"}
    columns |= _of_sgd(findings)
    if findings.data_issues is not None:
        checked = findings.data_issues.to_table()
        columns |= {name: checked[name] for name in checked.column_names if name != "id"}
    if samples.source is not None:
        columns["source"] = column(samples.source)
    if findings.adversarial is not None:
        columns["is_adversarial"] = pa.array(findings.adversarial)
    if findings.baselines is not None:
        columns["loss"] = pa.array(findings.baselines.loss)
        columns["margin"] = pa.array(findings.baselines.margin)
    if samples.true_y is not None:
        columns["true_label"] = labels(samples, samples.true_y)
    return with_meanings(pa.table(columns), SCORES)


def _of_sgd(findings: Findings) -> dict[str, pa.Array]:
    """What the smoothings of SGD's noise tell besides."""
    information = findings.information
    columns = {}
    if information.steady_state is not None:
        columns["outside"] = pa.array(information.steady_state.outside)
    if information.divergence is not None:
        columns["information_shift"] = pa.array(information.divergence.shift)
        columns["information_shape"] = pa.array(information.divergence.shape)
    return columns


def attribution_table(findings: Findings) -> pa.Table:
    """The largest effects on each validation sample.

    Returns:
        That of `effect_table`; of training samples where none is held out, without effects on
        themselves. No rows where no attribution was asked for.
    """
    attribution = findings.attribution
    if attribution is None:
        names = ("query", "query_id", "direction", "rank", "id", "effect", "of")
        types = (pa.int64(), column(findings.samples.ids).type, pa.string(), pa.int64())
        types += (types[1], pa.float64(), pa.string())
        none = pa.schema(list(zip(names, types, strict=True))).empty_table()
        return with_meanings(none, EFFECTS)
    return with_meanings(effect_table(attribution, findings.queries), EFFECTS)
