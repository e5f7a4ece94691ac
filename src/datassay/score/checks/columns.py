"""What columns tell: of the target, and of the parts of the data between which they differ."""

from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from jaxtyping import Int

from datassay.data.samples import SampleSet
from datassay.results import result
from datassay.score.checks.codes import RowCodes, row_codes, to_comparable
from datassay.score.checks.issue import DataIssue, Severity, named_ids

MOST_ROWS = 20_000  # that order columns
MOST_CODES = 20  # values of a column that are told apart when it is ordered; the rest are one


def by_association(rows: pa.Table, targets: np.ndarray) -> list[str]:
    """Return column names, those most associated with the target first.

    By Cramér's V of each column (tenths of numbers, the commonest words) and the target, less
    chance (Bergsma 2013), on at most 20 000 rows. Of several targets the first counts.
    """
    if not rows.num_rows or not rows.num_columns:
        return rows.column_names
    row_idx = np.arange(len(targets))[:: -(-len(targets) // MOST_ROWS)]
    coded = row_codes(rows.take(row_idx))
    target = targets[row_idx].reshape(len(row_idx), -1)[:, 0]
    if target.dtype.kind in "iu":
        target_code = target.astype(np.int64)
    else:
        target_code = _assign_tenths(target)
    target_code = _merge_rare(target_code)
    associations = []
    for code, numbers in zip(coded.codes.T, coded.numbers.T, strict=True):
        if np.isnan(numbers).all():
            column_code = code
        else:
            column_code = _assign_tenths(numbers)
        associations.append(_measure_association(_merge_rare(column_code), target_code))
    return [coded.names[c] for c in np.argsort(-np.array(associations), kind="stable")]


_COLUMNS: WeakKeyDictionary[SampleSet, list[str]] = WeakKeyDictionary()


def columns_first(samples: SampleSet) -> list[str]:
    """Return the names of the user's columns in use, those that tell most of the target first."""
    # Pages ask for these at each table: they are kept as long as the samples live.
    if samples not in _COLUMNS:
        rows = samples.used_rows
        _COLUMNS[samples] = [] if rows is None else by_association(rows, samples.y)
    return _COLUMNS[samples]


def _assign_tenths(values: np.ndarray) -> Int[np.ndarray, " n"]:
    """Return the decile, 0 to 9, of each number; 10 if it is missing."""
    if len(values):
        edges = np.nanquantile(values, np.arange(0.1, 1, 0.1))
    else:
        edges = values
    return np.where(np.isnan(values), 10, np.searchsorted(edges, values))


def _merge_rare(code: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """Return each value's frequency rank from 0; all rare values share MOST_CODES."""
    _, dense, counts = np.unique(code, return_inverse=True, return_counts=True)
    rank = np.argsort(np.argsort(-counts, kind="stable"))
    return np.minimum(rank, MOST_CODES)[dense]


def _measure_association(code: Int[np.ndarray, " n"], target: Int[np.ndarray, " n"]) -> float:
    """Return the square of Cramér's V, bias-corrected, in [0, 1]; codes count from 0."""
    n = len(code)
    shape = (int(code.max()) + 1, int(target.max()) + 1)
    table = np.bincount(code * shape[1] + target, minlength=shape[0] * shape[1]).reshape(shape)
    expected = np.outer(table.sum(1), table.sum(0)) / n
    freedom = (shape[0] - 1) * (shape[1] - 1)
    if not freedom:
        return 0.0
    square = ((table - expected) ** 2 / expected).sum() / n - freedom / (n - 1 or 1)
    return float(max(0.0, square) / (min(shape) - 1))


LEVEL = 0.01  # of all tests together, by Bonferroni's correction
# Smaller differences are of no consequence, however sure: Kolmogorov's D, Cramér's V.
LEAST = 0.1
FEWEST = 30  # rows of a part that can be compared
MOST_PARTS = 20
COMMON = 5  # A word that is rarer counts among the others.


@result
class Drift:
    """One column whose values in one part are unlike those in the others.

    Attributes:
        column: its position.
        part_name: name of the part.
        size: Kolmogorov's D of numbers, Cramér's V of others, in [0, 1].
        p_value: after Bonferroni's correction.
    """

    column: int
    part_name: str
    size: float
    p_value: float


def drift(rows: RowCodes, parts: np.ndarray) -> tuple[Drift, ...]:
    """Find the columns that differ between the parts of the data.

    Numbers by the two-sample Kolmogorov–Smirnov test, others and missing values by the chi-square
    test, each part against all others.

    Returns:
        Differences that are sure (1 % in all tests together) and no smaller than 0.1, the largest
        first; of each column and part the larger of both tests. Of more than 20 parts the largest
        20 are compared, and none of fewer than 30 samples.

    Cost: a sort of n a column and part.
    """
    names, counts = np.unique(parts, return_counts=True)
    if len(names) < 2:
        return ()
    largest = names[np.argsort(-counts, kind="stable")][:MOST_PARTS]
    masks = [parts == name for name in largest]
    is_comparable = [mask.sum() >= FEWEST and (~mask).sum() >= FEWEST for mask in masks]
    n_tests = max(1, sum(is_comparable) * len(rows.names) * 2)
    results = []
    for name, mask, is_large in zip(largest, masks, is_comparable, strict=True):
        for column in range(len(rows.names) if is_large else 0):
            tests = _test_part(rows, column, mask)
            size, p = max(tests, key=lambda test: test[0] * (test[1] < LEVEL))  # the largest sure
            if size >= LEAST and p * n_tests < LEVEL:
                results.append(Drift(column, str(name), size, min(1.0, p * n_tests)))
    return tuple(sorted(results, key=lambda difference: -difference.size))


def _test_part(rows: RowCodes, column: int, mask: np.ndarray) -> list[tuple[float, float]]:
    """Return (effect size, p) of each test of a column: the part `mask` against the rest."""
    from scipy.stats import ks_2samp  # scipy.stats costs 0.5 s to import

    values = rows.numbers[:, column]
    has_number = ~np.isnan(values)
    if not has_number.any():
        return [_test_words(rows.codes[:, column], mask)]
    tests = [_test_words(has_number.astype(int), mask)]
    inside = values[has_number & mask]
    outside = values[has_number & ~mask]
    if min(len(inside), len(outside)) >= FEWEST:
        test = ks_2samp(inside, outside, method="asymp")
        tests.append((float(test.statistic), float(test.pvalue)))
    return tests


def _test_words(code: np.ndarray, mask: np.ndarray) -> tuple[float, float]:
    """Return Cramér's V and p of a categorical column against membership of a part."""
    from scipy.stats import chi2_contingency

    table = np.stack([np.bincount(code[m], minlength=code.max() + 1) for m in (mask, ~mask)])
    rare = table.sum(0) < COMMON * len(mask) / min(mask.sum(), (~mask).sum())
    table = np.concatenate([table[:, ~rare], table[:, rare].sum(1, keepdims=True)], 1)
    table = table[:, table.sum(0) > 0]
    if table.shape[1] < 2:
        return 0.0, 1.0
    test = chi2_contingency(table, correction=False)
    return float(np.sqrt(test.statistic / len(mask))), float(test.pvalue)


def drift_issues(train: SampleSet, val: SampleSet | None, rows: RowCodes) -> list[DataIssue]:
    """Return issues on columns that differ between sources, or training and validation."""
    n = len(train)
    arrays = (
        rows.codes[:n],
        rows.numbers[:n],
        rows.coordinates[:n],
        rows.words,
        rows.standardised[:n],
    )
    train_rows = RowCodes(rows.names, *arrays)
    tests = []
    if train.source is not None:
        tests.append(("drift between sources", train_rows, np.asarray(train.source)))
    if val is not None and not val.split_off:
        parts = np.where(np.arange(len(rows.codes)) < n, "training", "validation")
        tests.append(("drift from training to validation", rows, parts))
    issues = []
    for kind, compared, parts in tests:
        outcome = ()
        if len(rows.names) > 1:
            outcome = drift(compared, parts)
        if outcome:
            columns = list(dict.fromkeys(rows.names[o.column] for o in outcome))
            sizes = [f"{rows.names[o.column]} of {o.part_name} ({o.size:.2f})" for o in outcome]
            text = f"Most: {named_ids(sizes)}: the largest gap between distributions, from 0 to 1."
            issues.append(DataIssue(kind, "look", len(columns), "columns", text))
    return issues


def empty_rows(train: SampleSet) -> list[DataIssue]:
    """Return an issue on rows without any value, or texts without a character."""
    is_empty = np.zeros(len(train), bool)
    text = "Every column is missing"
    if train.texts is not None:
        is_empty = np.array([not str(t).strip() for t in train.texts])
        text = "No character"
    elif (rows := train.used_rows) is not None and rows.num_columns:
        is_empty = np.all([to_comparable(c).is_null().to_numpy() for c in rows.columns], 0)
    text += f": {named_ids(train.ids[is_empty])}. Nothing can be learnt from these: leave them out."
    issue = DataIssue("empty rows", "act", int(is_empty.sum()), "rows", text)
    if not is_empty.any():
        return []
    return [issue]


def leaking_columns(train: SampleSet) -> list[str]:
    """Return the columns that tell the target almost alone, as reading the table found them."""
    return [column.name for column in train.columns if column.tells_target]


def column_issues(train: SampleSet) -> list[DataIssue]:
    """Return issues on columns that leak the target, and on those left out."""
    leaking = leaking_columns(train)
    left_out = [c.name for c in train.columns if c.read_as == "left out" and train.rows is not None]
    issues = []
    kinds: tuple[tuple[str, Severity, list[str], str], ...] = (
        ("leaking columns", "act", leaking, "One column says the target almost alone"),
        ("columns left out", "look", left_out, "Constant, ids, or nothing to learn from"),
    )
    for kind, severity, names, text in kinds:
        if names:
            sentence = f"{text}: {named_ids(names)}."
            issues.append(DataIssue(kind, severity, len(names), "columns", sentence))
    return issues
