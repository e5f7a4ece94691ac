"""What conditions are about: how much of each fault a run names, as a range, and what it is."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np

from datassay.commands.run.findings import Findings
from datassay.commands.run.gate.conditions import MEANINGS
from datassay.commands.run.labels import label_verdict
from datassay.data.samples import SampleSet
from datassay.data.tables.leaks import FEW_ROWS
from datassay.optional import text_if
from datassay.report.wording import count
from datassay.results import result
from datassay.score.checks.columns import FEWEST as FEWEST_COMPARED
from datassay.score.checks.columns import leaking_columns
from datassay.score.checks.data_issues import DataIssues
from datassay.score.checks.duplicates import EXACT_UP_TO
from datassay.score.labels.issues import FEWEST

MOST_NAMED = 1000  # ids or columns that a summary names
NO_PART = "no part of the data is held out; give --val-fraction, or data with a validation part"


@result
class Quantity:
    """How much of one fault there is; at least `low` and at most `high`.

    Attributes:
        unit: what is counted, in the plural.
        total: how many there are in all.
        low: how many surely have the fault.
        high: how many may have it; None: no bound is known.
        names: ids of the samples, or names of the columns; at most MOST_NAMED, and none of faults
            that are only counted.
        why: why the range is wide, or nothing was looked for; empty of an exact count.
        is_searched: whether the fault was looked for.
    """

    unit: str
    total: int
    low: int = 0
    high: int | None = None
    names: tuple[str | int, ...] = ()
    why: str = ""
    is_searched: bool = True


def quantities(findings: Findings) -> dict[str, dict[str, Any]]:
    """Return name of a condition → how many faults, at least and at most, as plain values."""
    train = findings.samples
    issues = findings.data_issues
    measured = {"wrong": _count_wrong_labels(findings), "leak": _count_leaks(findings)}
    unknown = Quantity("samples", len(train), why="nothing was looked for", is_searched=False)
    results = dict.fromkeys(MEANINGS, unknown)
    if issues is not None:
        results |= {
            "duplicates": _count_duplicates(findings, issues),
            "duplicates-across-split": _count_across_split(findings, issues),
            "conflicts": _count_conflicts(train, issues),
            "outliers": _count_outliers(train, issues),
            "empty-rows": _count_empty_rows(train, issues),
            "rare-classes": _count_rare_classes(train, issues),
            "drift": _count_drifted(findings, issues),
        }
    return {name: asdict(quantity) for name, quantity in (results | measured).items()}


def _count_wrong_labels(findings: Findings) -> Quantity:
    """Return how many labels are wrong; no upper bound if inputs do not predict labels."""
    labels = label_verdict(findings)
    unit = f"{labels.noun}s"
    n = labels.n
    if n < FEWEST:
        return Quantity(unit, n, why=labels.sentence, is_searched=False)
    is_bounded = labels.is_predicted and not labels.leaks
    why = text_if(not is_bounded, labels.sentence)
    if labels.leaks:
        why = f"{', '.join(labels.leaks)} must be dropped first"
    return Quantity(unit, n, labels.low, labels.high if is_bounded else None, why=why)


def _count_leaks(findings: Findings) -> Quantity:
    """Count columns that predict the target almost alone; say why if none were looked for."""
    train = findings.samples
    val = findings.validation
    leaking = leaking_columns(train)
    features = [c for c in train.columns if c.read_as not in {"target", "ids", "left out"}]
    n_rows = len(train) + (len(val) if val is not None and val.split_off else 0)
    why = ""
    if train.rows is None:
        why = "only columns of a table can tell the target"
    elif n_rows < FEW_ROWS:
        why = f"{n_rows} rows are too few to tell; {FEW_ROWS} are needed"
    elif train.y.ndim > 1:
        why = "leaks of several targets are not looked for"
    elif train.is_classification and (np.bincount(train.y) >= 5).sum() < 2:
        why = "two classes of five rows or more are needed"
    return Quantity("columns", len(features), *_exact(leaking), why=why, is_searched=not why)


def _exact(faulty: Iterable[Any]) -> tuple[int, int, tuple[Any, ...]]:
    """Return the ends of the range of an exact count, and what is named of it."""
    items = sorted(faulty, key=str)  # so that they do not depend on the order of the rows
    return len(items), len(items), tuple(items[:MOST_NAMED])


def _count_issues(issues: DataIssues, *kinds: str) -> list[tuple[int, bool]]:
    """Return the count of each issue of these kinds, and whether it may be no fault."""
    return [(i.count, i.severity != "act") for i in issues.issues if i.kind in kinds]


def _name_unsearched(findings: Findings, issues: DataIssues) -> str:
    """Return a clause on the samples not searched for copies; "" if all were."""
    n = len(findings.samples) + len(findings.validation or ())
    if findings.samples.kind == "image" and n > EXACT_UP_TO:
        return f"changed copies are looked for among at most {EXACT_UP_TO:,} pictures"
    return issues.unsearched


def _count_duplicates(findings: Findings, issues: DataIssues) -> Quantity:
    """Count training samples equal to an earlier one; at most with rows equal by chance."""
    train = findings.samples
    unsearched = _name_unsearched(findings, issues)
    # All but the first of each group of copies.
    _, first_idx, inverse = np.unique(issues.copies, return_index=True, return_inverse=True)
    is_repeated = first_idx[inverse] != np.arange(len(train))
    low, high, names = _exact(train.ids[is_repeated].tolist())
    # Of severity "fine": rows that are equal by chance.
    n_by_chance = [
        i.count for i in issues.issues if i.kind == "equal inputs" and i.severity == "fine"
    ]
    return _make_count("samples", len(train), low, high + sum(n_by_chance), names, unsearched)


def _count_across_split(findings: Findings, issues: DataIssues) -> Quantity:
    """Count held-out samples that are copies of a training sample."""
    val = findings.validation
    unit = "held-out samples"
    if val is None or len(val) != len(issues.repeated):
        why = "held-out samples are of another shape"
        if val is None:
            why = NO_PART
        return Quantity(unit, len(val or ()), why=why, is_searched=False)
    low, high, names = _exact(val.ids[issues.repeated].tolist())
    high = max([high, *(n for n, _ in _count_issues(issues, "equal inputs across the split"))])
    return _make_count(unit, len(val), low, high, names, _name_unsearched(findings, issues))


def _make_count(
    unit: str, total: int, low: int, high: int, names: tuple[Any, ...], unsearched: str
) -> Quantity:
    """Return a count of copies in low … high; those above `low` may be equal by chance."""
    chance = text_if(high > low, f"{count(high - low, 'equal row')} may be so by chance")
    why = "; ".join(filter(None, (chance, unsearched)))
    return Quantity(unit, total, low, None if unsearched else high, names, why=why)


def _count_conflicts(train: SampleSet, issues: DataIssues) -> Quantity:
    counts = _count_issues(
        issues, "equal inputs, different labels", "equal inputs, different targets"
    )
    high = sum(n for n, _ in counts)
    low = sum(n for n, may_be_right in counts if not may_be_right)
    why = text_if(low != high, "equal rows may differ in what was not recorded")
    return Quantity("rows", len(train), low, high, why=why)


def _count_outliers(train: SampleSet, issues: DataIssues) -> Quantity:
    """Count samples unlike all others; no upper bound if some were not searched."""
    is_unknown = np.isnan(issues.outlier_score)
    low, high, names = _exact(train.ids[np.flatnonzero(issues.is_outlier)].tolist())
    if is_unknown.all():
        why = issues.unsearched or "all samples lie alike"
        return Quantity("samples", len(train), why=why, is_searched=False)
    is_bounded = not is_unknown.any()
    why = text_if(not is_bounded, issues.unsearched)
    return Quantity("samples", len(train), low, high if is_bounded else None, names, why=why)


def _count_empty_rows(train: SampleSet, issues: DataIssues) -> Quantity:
    """Count rows of a table or texts without any content."""
    n = sum(count for count, _ in _count_issues(issues, "empty rows"))
    if train.texts is None and (train.used_rows is None or not train.used_rows.num_columns):
        why = "only rows of tables and texts can be empty"
        return Quantity("rows", len(train), why=why, is_searched=False)
    return Quantity("rows", len(train), n, n)


def _count_rare_classes(train: SampleSet, issues: DataIssues) -> Quantity:
    """Count classes with too few samples."""
    n = sum(count for count, _ in _count_issues(issues, "class imbalance"))
    if not train.is_classification or train.n_classes < 2:
        why = "the target has no classes"
        return Quantity("classes", train.n_classes, why=why, is_searched=False)
    return Quantity("classes", train.n_classes, n, n)


def _count_drifted(findings: Findings, issues: DataIssues) -> Quantity:
    """Count columns whose values differ between sources, or training and validation."""
    train = findings.samples
    val = findings.validation
    n_columns = 0
    if train.used_rows is not None:
        n_columns = train.used_rows.num_columns
    elif train.kind == "row" and train.x.ndim == 2:
        n_columns = train.x.shape[1]
    sizes = []
    if train.source is not None:
        sizes = np.unique(train.source, return_counts=True)[1].tolist()
    pairs = [(n, len(train) - n) for n in sizes]
    if val is not None and not val.split_off:
        pairs += [(len(train), len(val))]
    if n_columns < 2 or max(map(min, pairs), default=0) < FEWEST_COMPARED:
        why = f"no two parts of {FEWEST_COMPARED} rows and two columns can be compared; give "
        why += "--source, or data with a validation part"
        return Quantity("columns", n_columns, why=why, is_searched=False)
    kinds = "drift between sources", "drift from training to validation"
    counts = [n for n, _ in _count_issues(issues, *kinds)]
    # The same columns may drift in both ways.
    return Quantity("columns", n_columns, max(counts, default=0), sum(counts))
