"""Which columns of a table tell most of the target."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from jaxtyping import Int

from datassay.data.samples import SampleSet
from datassay.score.checks.duplicates import row_codes


def telling_columns(rows: pa.Table, targets: np.ndarray) -> list[str]:
    """Names of columns, those that tell most of the target first.

    Args:
        rows: the columns of n samples.
        targets: [n], class indices or numbers; of [n, k] the first.

    Returns:
        All names by Cramér's V between ten quantiles (or the commonest words) of the column and
        the target, less what chance gives (Bergsma 2013).
    """
    if not rows.num_rows or not rows.num_columns:
        return rows.column_names
    coded = row_codes(rows)
    first = targets.reshape(len(targets), -1)[:, 0]
    wanted = _few(first.astype(np.int64) if first.dtype.kind in "iu" else _quantiles(first))
    told = []
    for code, numbers in zip(coded.codes.T, coded.numbers.T, strict=True):
        of_numbers = not np.isnan(numbers).all()
        told.append(_association(_few(_quantiles(numbers) if of_numbers else code), wanted))
    return [coded.names[c] for c in np.argsort(-np.array(told), kind="stable")]


def columns_first(samples: SampleSet) -> list[str]:
    """Names of the user's columns, those that tell most of the target first; none left out."""
    rows = samples.used_rows
    return [] if rows is None else telling_columns(rows, samples.y)


def _quantiles(values: np.ndarray) -> Int[np.ndarray, " n"]:
    """Which tenth a number lies in; missing ones are the eleventh."""
    edges = np.nanquantile(values, np.arange(0.1, 1, 0.1)) if len(values) else values
    return np.where(np.isnan(values), 10, np.searchsorted(edges, values))


def _few(code: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """The commonest 20 values by their rank, all others as one."""
    _, dense, counts = np.unique(code, return_inverse=True, return_counts=True)
    rank = np.argsort(np.argsort(-counts, kind="stable"))
    return np.minimum(rank, 20)[dense]


def _association(one: Int[np.ndarray, " n"], other: Int[np.ndarray, " n"]) -> float:
    n, shape = len(one), (int(one.max()) + 1, int(other.max()) + 1)
    table = np.bincount(one * shape[1] + other, minlength=shape[0] * shape[1]).reshape(shape)
    expected = np.outer(table.sum(1), table.sum(0)) / n
    freedom = (shape[0] - 1) * (shape[1] - 1)
    if not freedom:
        return 0.0
    square = ((table - expected) ** 2 / expected).sum() / n - freedom / (n - 1 or 1)
    return float(max(0.0, square) / (min(shape) - 1))
