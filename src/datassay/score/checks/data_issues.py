"""What is wrong with data beside its labels: duplicates, outliers, imbalance, drift, columns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.optional import coalesce, drop_none, inflect, text_if
from datassay.results import Tabular, column, result, sample_ids
from datassay.score.checks.codes import RowCodes, array_codes, row_codes
from datassay.score.checks.columns import column_issues, drift_issues, empty_rows
from datassay.score.checks.copies import differ, is_copy
from datassay.score.checks.duplicates import Duplicates, add_near, duplicates
from datassay.score.checks.images import image_issues, image_properties
from datassay.score.checks.issue import NAMED, DataIssue, named_ids, worst_first
from datassay.score.checks.near_pictures import near_pictures
from datassay.score.checks.outliers import outlier_score
from datassay.score.checks.together import order_issues
from datassay.score.checks.weak_groups import weak_group_issues
from datassay.score.registry import Context, Score

RARE_CLASS = 0.1  # part of an equal share of the samples below which a class is rare (cleanlab's)
MOST_COLUMNS = 500  # Arrays of more are compared as a whole, as images are.
NOTABLE = 0.05  # part of the samples: with more near duplicates held-out scores are false
LEAST_NEW = 10  # held-out samples that repeat none: fewer judge nothing


@dataclass(frozen=True, slots=True)
class NearPair:
    """Two samples that are near duplicates.

    Attributes:
        ids: of both.
        in_validation: whether each is a validation sample.
        columns: (name, first value, second value) of the columns that differ; empty of images.
    """

    ids: tuple[str, str]
    in_validation: tuple[bool, bool]
    columns: tuple[tuple[str, str, str], ...]


@result
class DataIssues(Tabular):
    """Problems found in the data, and a row per sample.

    Attributes:
        issues: worst first.
        pairs: in each group of near duplicates the first with every other; across the split first.
        repeated: [m], which held-out samples repeat a training sample, equally or nearly.
        duplicate_group: [n], samples whose inputs are equal share a number; −1: none is equal.
        near_group: [n], near duplicates share a number, also with samples equal to them; −1: none.
        nearest: [n], id of the nearest other sample, of either part.
        distance: [n], to it: robust standard deviations, 1 for another word; nan where the nearest
            was not searched for, and `nearest` says nothing.
        outlier_score: [n], as the function of that name gives it; nan likewise.
        is_outlier: [n], which samples lie far from all others.
        copies: [n], equal samples and near duplicates share a number, unless equal by chance.
        is_copy: [n], which samples repeat one that stays, of one label.
        telling: columns that may tell groups, a row per sample, as `grouping_columns` gives them.
        unsearched: what was not looked for; empty where all was.
        ids: [n], the samples' ids.
    """

    issues: tuple[DataIssue, ...]
    pairs: tuple[NearPair, ...]
    repeated: Bool[np.ndarray, " m"]
    duplicate_group: Int[np.ndarray, " n"] = column(
        "samples of equal inputs share a number; null: none is equal",
        values=lambda issues: pa.array(issues.duplicate_group, mask=issues.duplicate_group < 0),
    )
    near_group: Int[np.ndarray, " n"] = column(
        "near duplicates share a number; null: there are none of it",
        name="near_duplicate_group",
        values=lambda issues: pa.array(issues.near_group, mask=issues.near_group < 0),
    )
    nearest: np.ndarray = column(
        "id of the nearest other sample",
        name="nearest_id",
        values=lambda issues: pa.array(issues.nearest, mask=np.isnan(issues.distance)),
    )
    distance: Float[np.ndarray, " n"] = column(
        "to the nearest other sample",
        unit="robust standard deviations; another word counts 1",
        sign="0: equal inputs",
        name="nearest_distance",
        nan_is_null=True,
    )
    outlier_score: Float[np.ndarray, " n"] = column(
        "modified z-score of the mean distance to the ten nearest, minus 3.5",
        sign="above 0: an outlier",
        nan_is_null=True,
    )
    is_outlier: Bool[np.ndarray, " n"] = column(
        "whether outlier_score is above 0",
        values=lambda issues: pa.array(issues.is_outlier, mask=np.isnan(issues.outlier_score)),
    )
    copies: Int[np.ndarray, " n"]
    is_copy: Bool[np.ndarray, " n"] = column(
        "whether another sample is equal or nearly so, under the same label, and stays; null: not "
        "searched for",
        values=lambda issues: pa.array(issues.is_copy, mask=np.isnan(issues.distance)),
    )
    telling: pa.Table
    unsearched: str
    ids: np.ndarray = sample_ids()


def data_issues(
    train: SampleSet | Any,
    val: SampleSet | None = None,
    *,
    held_out: Float[np.ndarray, "n k"] | None = None,
    further: Sequence[DataIssue] = (),
) -> DataIssues:
    """Check data for what label scores do not see.

    Args:
        train: n samples. A table is judged by the user's own columns, without those that were left
            out; images and texts by x. (x, None): samples without labels.
        val: held-out samples, searched for copies of training samples; None: there are none.
        held_out: [n, k], as `LabelIssues.held_out`; None: weak groups are not looked for.
        further: issues found elsewhere, to be listed with these.

    Returns:
        Equal inputs (with different labels, across the split), near duplicates, outliers, rare
        classes, odd columns, empty rows, drift, faults of images, groups predicted badly.

    Raises:
        DataError: an argument is of the wrong type.

    Cost: that of `duplicates`: 1 s at 12 000 rows of 30 columns, 10 s at 200 000 with faiss.
    Source: what cleanlab's Datalab lists (Northcutt et al.), by `duplicates`, `near_pictures`, ...
    """
    data: Any = train
    has_no_labels = isinstance(train, tuple) and len(train) == 2 and train[1] is None
    if has_no_labels:  # any numbers that are read as targets, not as classes
        data = data[0], np.arange(len(data[0])) + 0.5
    train, val = _samples(data, val)
    if has_no_labels:
        train = replace(train, y=np.zeros(len(train)), warnings=())
    if val is not None and not (len(val) and val.input_shape == train.input_shape):
        val = None
    n = len(train)
    rows = _encode_rows(train, val)
    outcome = add_near(duplicates(rows), near_pictures(train, val))
    outlier_scores = outlier_score(rows.coordinates[:n], outcome.loneliness[:n])
    pairs = _list_pairs(train, val, rows, outcome)
    properties = image_properties(train)
    telling = grouping_columns(train, properties)
    issues = (
        *empty_rows(train),
        *_report_equal(train, outcome, by_chance=False),
        *_report_equal(train, outcome, by_chance=True),
        *_report_near(n, outcome, pairs),
        *_report_outliers(rows, outlier_scores),
        *_report_rare_classes(train),
        *column_issues(train),
        *drift_issues(train, val, rows),
        *image_issues(train, properties),
        *weak_group_issues(train, held_out, telling),
        *further,
    )
    m = len(outcome.near)  # more than there are groups: numbers of the kinds do not overlap
    near_group = outcome.near[:n]
    is_equal = (outcome.group[:n] >= 0) & ~outcome.is_by_chance[:n]
    equal_group = np.where(is_equal, outcome.group[:n] + m, 2 * m + np.arange(n))
    copies = np.where(near_group >= 0, near_group, equal_group)
    return DataIssues(
        issues=worst_first(*issues),
        pairs=pairs,
        repeated=_find_repeated(outcome, n),
        duplicate_group=outcome.group[:n],
        near_group=near_group,
        nearest=_join_ids(train, val)[outcome.nearest[:n].clip(0)],
        distance=outcome.distance[:n],
        outlier_score=outlier_scores,
        is_outlier=outlier_scores > 0,
        copies=copies,
        is_copy=is_copy(copies, train.y),
        telling=telling,
        unsearched=outcome.unsearched,
        ids=train.ids,
    )


@checks_arguments
def _samples(train: SampleSet, val: SampleSet | None) -> tuple[SampleSet, SampleSet | None]:
    return train, val


def _encode_rows(train: SampleSet, val: SampleSet | None) -> RowCodes:
    """Return training and then held-out rows encoded, by column where there are columns."""
    sets = drop_none(train, val)
    tables = [samples.rows for samples in sets if samples.rows is not None]
    if len(tables) == len(sets) and (user_rows := train.used_rows) is not None:
        shared_names = set.intersection(*(set(table.column_names) for table in tables))
        names = [name for name in user_rows.column_names if name in shared_names]
        if names:
            texts = {column.name for column in train.columns if column.read_as == "text"}
            return row_codes(*(table.select(names) for table in tables), texts=texts)
    words = [samples.texts for samples in sets if samples.texts is not None]
    if len(words) == len(sets):
        return row_codes(*(pa.table({"text": [*map(str, w)]}) for w in words), texts={"text"})
    x = np.concatenate([samples.x.reshape(len(samples), -1) for samples in sets])
    if train.kind == "row" and x.shape[1] <= MOST_COLUMNS:
        names = train.feature_names or tuple(f"x{j}" for j in range(x.shape[1]))
        return row_codes(pa.table(dict(zip(names, x.T, strict=True))))
    return array_codes(x)


def _join_ids(train: SampleSet, val: SampleSet | None) -> np.ndarray:
    return np.asarray(train.ids if val is None else np.concatenate([train.ids, val.ids]))


def _find_repeated(outcome: Duplicates, n: int) -> Bool[np.ndarray, " m"]:
    """Return which held-out samples repeat one of the n training samples, other than by chance."""
    groups = (outcome.near, np.where(outcome.is_by_chance, -1, outcome.group))
    return np.logical_or.reduce([np.isin(g[n:], g[:n]) & (g[n:] >= 0) for g in groups])


def _report_equal(train: SampleSet, outcome: Duplicates, *, by_chance: bool) -> list[DataIssue]:
    """Return issues on equal inputs, across the split, and under different labels."""
    issues = []
    unit = "rows" if train.kind == "row" else "samples"
    n = len(train)
    group = np.where(outcome.is_by_chance == by_chance, outcome.group, -1)
    rows = np.flatnonzero(group[:n] >= 0)
    groups, counts = np.unique(group[rows], return_counts=True)
    if n_more := int((counts - 1).clip(0).sum()):
        repeat = inflect(n_more, f"{unit.removesuffix('s')} repeats", f"{unit} repeat")
        text = f"{n_more:,} {repeat} one of {(counts > 1).sum():,} others."
        if by_chance:
            text += " Columns hold few different values: at least half as many rows differ from "
            text += "another in one column only, so most of these may be equal by chance."
        severity = "fine" if by_chance else "look"
        issues.append(DataIssue("equal inputs", severity, n_more, unit, text))
    if n_across := int((np.isin(group[n:], groups) & (group[n:] >= 0)).sum()):
        text = "They are held out, and in the training set too: they test nothing new."
        text += text_if(not by_chance, _note_exclusion(outcome, n))
        severity = "look" if by_chance else "act"
        issues.append(DataIssue("equal inputs across the split", severity, n_across, unit, text))
    if len(rows) and len(ids := train.ids[rows[differ(group[rows], train.y[rows])]]):
        noun = "labels" if train.is_classification else "targets"
        names = ", ".join(map(str, ids[:5])) + text_if(len(ids) > 5, ", …")
        text = f"Compare them, one may be wrong: {names}."
        severity = "look" if by_chance or noun == "targets" else "act"
        issues.append(DataIssue(f"equal inputs, different {noun}", severity, len(ids), unit, text))
    return issues


def _list_pairs(
    train: SampleSet, val: SampleSet | None, rows: RowCodes, outcome: Duplicates
) -> tuple[NearPair, ...]:
    """Return near-duplicate pairs with a training sample; those across the split come first."""
    n = len(train)
    ids = _join_ids(train, val)
    n_held_out = (outcome.pairs >= n).sum(1)
    order = np.argsort(n_held_out != 1, kind="stable")
    pairs = []
    for a, b in outcome.pairs[order[n_held_out[order] < 2]].tolist():
        is_apart = rows.codes[a] != rows.codes[b]
        names = [rows.names[c] for c in np.flatnonzero(is_apart)] if rows.names else []
        values = [[_format_value(train, val, i, name) for name in names] for i in (a, b)]
        columns = tuple(zip(names, *values, strict=True))
        pairs.append(NearPair((str(ids[a]), str(ids[b])), (a >= n, b >= n), columns))
    return tuple(pairs)


def _format_value(train: SampleSet, val: SampleSet | None, position: int, name: str) -> str:
    """Return a column's value as text, of a training or (later positions) held-out row."""
    samples = train
    if position >= len(train) and val is not None:
        samples = val
        position -= len(train)
    if samples.rows is not None and name in samples.rows.column_names:
        value = samples.rows[name][position].as_py()
        text = f"{value:g}" if isinstance(value, float) else str(value)
        return "missing" if value is None else text
    names = samples.feature_names or tuple(f"x{j}" for j in range(samples.x[0].size))
    if name not in names:
        return ""
    return f"{samples.x[position].ravel()[names.index(name)]:g}"


def _report_near(n: int, outcome: Duplicates, pairs: tuple[NearPair, ...]) -> list[DataIssue]:
    """Return issues on near duplicates across the split, and among n training samples."""
    issues = []
    near_group = outcome.near
    is_across = np.isin(near_group[n:], near_group[:n]) & (near_group[n:] >= 0)
    if is_across.any():
        edits = _describe_edits([p for p in pairs if sum(p.in_validation) == 1])
        text = f"{100 * is_across.mean():.2g} % of the validation samples repeat training samples"
        text += f" all but exactly{edits}: a model has seen them.{_note_exclusion(outcome, n)}"
        severity = "act" if edits or is_across.mean() > NOTABLE else "look"
        n_groups = len(np.unique(near_group[n:][is_across]))
        kind = "near duplicates across the split"
        issues.append(DataIssue(kind, severity, int(is_across.sum()), "samples", text, n_groups))
    train_group = near_group[:n]
    group_size = np.bincount(train_group + 1)[train_group + 1]
    is_near = (train_group >= 0) & (group_size > 1)
    if is_near.any():
        n_groups = len(np.unique(train_group[is_near]))
        severity = "look"
        text = f"{100 * is_near.mean():.2g} % of the samples are all but equal to others, up to "
        text += f"{group_size[is_near].max()} in a group"
        text += f"{_describe_edits([p for p in pairs if not any(p.in_validation)])}."
        if is_near.mean() > NOTABLE:
            severity = "act"
            text += " A model judged on copies of what it learnt looks better than it is: keep each"
            text += " group on one side of a split, as the table of actions does; where there are"
            text += " so many, some may differ more and not be found."
        n_near = int(is_near.sum())
        issues.append(DataIssue("near duplicates", severity, n_near, "samples", text, n_groups))
    return issues


def _note_exclusion(outcome: Duplicates, n: int) -> str:
    """Return the sentence that actions leave out repeated held-out samples, if enough remain."""
    n_new = int((~_find_repeated(outcome, n)).sum())
    return text_if(n_new >= LEAST_NEW, " Actions are judged without them.")


def _describe_edits(pairs: list[NearPair]) -> str:
    """Return how many pairs differ in one column only, as part of a sentence; empty: none."""
    n_edits = sum(len(p.columns) == 1 for p in pairs)
    return text_if(n_edits, f", {n_edits:,} in all but one column")


def _report_outliers(rows: RowCodes, score: Float[np.ndarray, " n"]) -> list[DataIssue]:
    """Return an issue on outliers that names their most extreme columns; [] without any."""
    outlier_idx = np.flatnonzero(score > 0)
    if not len(outlier_idx):
        return []
    magnitude = np.nan_to_num(np.abs(rows.numbers[outlier_idx]))
    unit = "rows" if rows.names else "samples"
    text = f"{unit.capitalize()} far from their ten nearest neighbours, or in a small group apart."
    if len(rows.names) > 1 and magnitude.any():
        columns, counts = np.unique(magnitude.argmax(1), return_counts=True)
        order = np.argsort(-counts, kind="stable")[:NAMED]
        text += f" Their most extreme values: {', '.join(rows.names[c] for c in columns[order])}."
    return [DataIssue("outliers", "look", len(outlier_idx), unit, text)]


def _report_rare_classes(train: SampleSet) -> list[DataIssue]:
    """Return an issue that names the rare classes, the rarest first; [] without any."""
    if not train.is_classification or train.n_classes < 2:
        return []
    counts = np.bincount(train.y, minlength=train.n_classes)
    rare = np.flatnonzero(counts < RARE_CLASS * len(train) / train.n_classes)
    rare = rare[np.argsort(counts[rare], kind="stable")]
    if not len(rare):
        return []
    names = named_ids([f"{train.class_names[c]} ({counts[c]:,})" for c in rare])
    text = f"Rare: {names}. Accuracy says little of them; judge by balanced accuracy."
    return [DataIssue("class imbalance", "look", len(rare), "classes", text)]


def grouping_columns(train: SampleSet, properties: pa.Table | None) -> pa.Table:
    """Return a table of columns that may define groups: the user's, image properties, source."""
    columns = coalesce(train.used_rows, properties)
    table: dict[str, Any] = {} if columns is None else {c: columns[c] for c in columns.column_names}
    if train.texts is not None and columns is None:
        table["characters"] = pa.array([len(str(text)) for text in train.texts])
    if train.source is not None:
        table["source"] = pa.array(train.source.astype(str))
    return pa.table(table)


def checked_ahead(train: SampleSet, val: SampleSet | None) -> DataIssues | None:
    """Return a table's issues, found before features take memory; None: the data is no table."""
    return None if train.rows is None else data_issues(train, val)


def _score_run(context: Context) -> DataIssues:
    """Return a run's data issues, with weak groups and row order, which need label scores."""
    train = context.train
    labels = context.results["label_issues"]
    order = order_issues(context.lin, train, labels)
    outcome = context.options.get("checked")
    if outcome is None:
        outcome = data_issues(train, context.val, held_out=labels.held_out, further=order)
    else:
        weak = weak_group_issues(train, labels.held_out, outcome.telling)
        outcome = replace(outcome, issues=worst_first(*outcome.issues, *weak, *order))
    return replace(outcome, is_copy=is_copy(outcome.copies, train.y, labels.probability))


SCORE = Score(
    name="data_issues",
    help="Whether a sample's input is a copy of another, or far from all others.",
    compute=_score_run,
    is_in_text=True,
    needs=("label_issues",),
)
