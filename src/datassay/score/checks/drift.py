"""Columns whose values differ between sources, or between training and validation."""

from __future__ import annotations

import numpy as np

from datassay.results import result
from datassay.score.checks.duplicates import RowCodes

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
        part: name of the part.
        size: Kolmogorov's D of numbers, Cramér's V of others, in [0, 1].
        p_value: after Bonferroni's correction.
    """

    column: int
    part: str
    size: float
    p_value: float


def drift(rows: RowCodes, parts: np.ndarray) -> tuple[Drift, ...]:
    """Which columns differ between the parts of the data.

    Numbers by the two-sample Kolmogorov–Smirnov test, others and missing values by the chi-square
    test, each part against all others.

    Args:
        rows: of n samples.
        parts: [n], which part each sample belongs to.

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
    inside = [parts == name for name in largest]
    able = [i.sum() >= FEWEST and (~i).sum() >= FEWEST for i in inside]
    n_tests = max(1, sum(able) * len(rows.names) * 2)
    found = []
    for name, mask, enough in zip(largest, inside, able, strict=True):
        for column in range(len(rows.names) if enough else 0):
            size, p = max(_tests(rows, column, mask), key=lambda test: test[0] * (test[1] < LEVEL))
            if size >= LEAST and p * n_tests < LEVEL:
                found.append(Drift(column, str(name), size, min(1.0, p * n_tests)))
    return tuple(sorted(found, key=lambda one: -one.size))


def _tests(rows: RowCodes, column: int, mask: np.ndarray) -> list[tuple[float, float]]:
    """(size, p) of the tests that fit a column."""
    from scipy.stats import ks_2samp  # scipy.stats costs 0.5 s to import

    values = rows.numbers[:, column]
    known = ~np.isnan(values)
    if not known.any():
        return [_words(rows.codes[:, column], mask)]
    tests = [_words(known.astype(int), mask)]
    ours, others = values[known & mask], values[known & ~mask]
    if min(len(ours), len(others)) >= FEWEST:
        test = ks_2samp(ours, others, method="asymp")
        tests.append((float(test.statistic), float(test.pvalue)))  # pyright: ignore[reportAttributeAccessIssue]
    return tests


def _words(code: np.ndarray, mask: np.ndarray) -> tuple[float, float]:
    """Cramér's V and p of a column of words against belonging to a part."""
    from scipy.stats import chi2_contingency

    table = np.stack([np.bincount(code[m], minlength=code.max() + 1) for m in (mask, ~mask)])
    rare = table.sum(0) < COMMON * len(mask) / min(mask.sum(), (~mask).sum())
    table = np.concatenate([table[:, ~rare], table[:, rare].sum(1, keepdims=True)], 1)
    table = table[:, table.sum(0) > 0]
    if table.shape[1] < 2:
        return 0.0, 1.0
    test = chi2_contingency(table, correction=False)
    return float(np.sqrt(test.statistic / len(mask))), float(test.pvalue)  # pyright: ignore
