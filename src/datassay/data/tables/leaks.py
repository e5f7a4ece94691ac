"""Columns that predict the target almost alone: the answer may have leaked into them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import rankdata

from datassay.data.tables.read import ReadColumn
from datassay.data.targets import MAX_GUESSED_CLASSES

LEAK = 0.95  # share of the target's variance that one column predicts
FEW_ROWS = 50
_ROWS = 20_000  # looked at
_COLUMNS = 2_000
_BINS = 20


def leaking(columns: Sequence[ReadColumn], y: np.ndarray) -> dict[str, float]:
    """Columns that predict the target almost alone.

    Each row is predicted by the mean target of the others in its group: rows with one category, or
    within one of 20 ranges of a number or date with about as many rows each. The variance is that
    of the labels' 0/1 columns, or of the ranks of numbers.

    Args:
        columns: as read, of n rows.
        y: [n] labels or numbers, as read.

    Returns:
        For each such column the share of the variance predicted, above LEAK; none of fewer than 50
        rows, where little can be told. Of tables larger than 20,000 rows or 2,000 columns, rows at
        equal distances and the first columns are looked at.
    """
    if len(y) < FEW_ROWS:
        return {}
    rows = np.unique(np.linspace(0, len(y) - 1, min(len(y), _ROWS)).astype(np.int64))
    targets = _as_numbers(y[rows])
    found = {}
    for read in columns[:_COLUMNS]:
        groups = _groups(read, rows)
        if groups is not None and (share := _predicted(groups, targets)) > LEAK:
            found[read.column.name] = share
    return found


def leak_warning(name: str, share: float) -> str:
    """What the reader must know of such a column."""
    return (
        f"Column {name!r} predicts the target almost alone ({share:.1%} of its variance). If it is "
        "not known before the target is, drop it."
    )


def _as_numbers(y: np.ndarray) -> Float[np.ndarray, "n k"]:
    distinct, codes = np.unique(y, return_inverse=True)
    if y.dtype.kind in "UOb" or len(distinct) <= MAX_GUESSED_CLASSES:
        frequent = np.argsort(-np.bincount(codes), kind="stable")[:MAX_GUESSED_CLASSES]
        return (codes[:, None] == frequent).astype(np.float64)
    return rankdata(y)[:, None]


def _groups(read: ReadColumn, rows: np.ndarray) -> Int[np.ndarray, " n"] | None:
    if read.words is not None and read.column.read_as == "category":
        codes = read.words.dictionary_encode().indices.fill_null(-1)
        return codes.to_numpy()[rows] + 1
    if read.values is None or read.values.ndim > 1:
        return None
    values = read.values[rows]
    is_missing = np.isnat(values) if values.dtype.kind == "M" else np.isnan(values.astype(float))
    known = values[~is_missing]
    groups = np.zeros(len(rows), dtype=np.int64)
    distinct, counts = np.unique(known, return_counts=True)
    if len(distinct) > _BINS:  # equal values stay together
        place = (np.cumsum(counts) - counts) * _BINS // len(known)
        groups[~is_missing] = place[np.searchsorted(distinct, known)] + 1
    else:
        groups[~is_missing] = np.searchsorted(distinct, known) + 1
    return groups


def _predicted(groups: Int[np.ndarray, " n"], y: Float[np.ndarray, "n k"]) -> float:
    """1 − Σ (y_i − mean of the others in its group)² / Σ (y_i − mean of all others)²."""
    n, counts = len(y), np.bincount(groups)[groups][:, None]
    y = y - y.mean(axis=0)
    sums = np.stack([np.bincount(groups, column)[groups] for column in y.T], axis=1)
    mean = np.where(counts > 1, (sums - y) / np.maximum(counts - 1, 1), 0.0)
    total = ((y * n / (n - 1)) ** 2).sum()
    return float(1 - ((y - mean) ** 2).sum() / total) if total > 0 else 0.0
