"""What a reader must know of a target: columns that tell it, and a few values that rule it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from datassay.data.source import Source
from datassay.data.tables.read import ReadColumn
from datassay.data.targets import MAX_GUESSED_CLASSES
from datassay.errors import DataError

LEAK = 0.95  # share of the target's variance that one column predicts
FEW_ROWS = 50
_ROWS = 20_000  # looked at
_COLUMNS = 2_000
_BINS = 20


def leak_warnings(columns: Sequence[ReadColumn], y: np.ndarray) -> tuple[str, ...]:
    """What the reader must know of columns that predict the target almost alone, above LEAK."""
    # Each row is predicted by the mean target of the others in its group: rows with one category,
    # or within one of 20 ranges of a number or date with about as many rows each. The variance is
    # that of the labels' 0/1 columns, or of the ranks of numbers. Large tables are sampled.
    if len(y) < FEW_ROWS:
        return ()
    rows = np.unique(np.linspace(0, len(y) - 1, min(len(y), _ROWS)).astype(np.int64))
    y = y[rows]
    distinct, codes = np.unique(y, return_inverse=True)
    if y.dtype.kind in "UOb" or len(distinct) <= MAX_GUESSED_CLASSES:
        frequent = np.argsort(-np.bincount(codes), kind="stable")[:MAX_GUESSED_CLASSES]
        targets = (codes[:, None] == frequent).astype(np.float64)  # [n, k]
    else:
        from scipy.stats import rankdata  # slow to import

        targets = rankdata(y)[:, None]
    results = []
    for read in columns[:_COLUMNS]:
        groups = _groups(read, rows)
        if groups is not None and (share := _predicted(groups, targets)) > LEAK:
            results.append(
                f"Column {read.column.name!r} predicts the target almost alone ({share:.1%} of its "
                "variance). If it is not known before the target is, drop it."
            )
    return tuple(results)


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
        position = (np.cumsum(counts) - counts) * _BINS // len(known)
        groups[~is_missing] = position[np.searchsorted(distinct, known)] + 1
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


SKEWED = 1.0  # skewness from which the logarithm is offered, where it halves that


def skew_warning(y: np.ndarray) -> tuple[str, ...]:
    """That a target is skewed, where its logarithm is at most half as skewed."""
    from scipy.stats import skew

    if y.ndim > 1 or y.min() < 0 or (before := float(skew(y))) <= SKEWED:
        return ()
    after = abs(float(skew(_log(y))))
    if after > before / 2:
        return ()
    return (
        f"The target is skewed (skewness {before:.1f}, of its logarithm {after:.1f}), so its "
        "largest values decide most of the fit. Consider log_target.",
    )


def with_log_target(source: Source) -> Source:
    """The same source with ln y as its target, ln(1 + y) where some are 0; its column says so."""
    parts = [part.y for part in (source.train, source.val) if part is not None]
    if any(y.dtype.kind not in "iuf" or y.min() < 0 for y in parts):
        raise DataError(
            "log_target needs targets that are numbers of at least 0; these are not. Leave it out."
        )
    shifted = any(y.min() == 0 for y in parts)
    words = "ln(1 + target)" if shifted else "ln(target)"
    return replace(
        source,
        train=replace(source.train, y=_log(source.train.y, shifted=shifted)),
        val=source.val and replace(source.val, y=_log(source.val.y, shifted=shifted)),
        columns=tuple(
            c
            if c.read_as != "target"
            else replace(c, treatment=f"{words} is predicted", note=words)
            for c in source.columns
        ),
    )


def _log(y: np.ndarray, *, shifted: bool | None = None) -> np.ndarray:
    shifted = bool(y.min() == 0) if shifted is None else shifted
    y = y.astype(np.float64)
    return np.log1p(y) if shifted else np.log(y)
