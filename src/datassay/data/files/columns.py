"""Columns of a table as numbers: numeric ones stay, categories become one-hot, texts stay text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from datassay.errors import DataError

MAX_CATEGORIES = 20


def plain(column: pa.ChunkedArray, name: str) -> np.ndarray:
    """One column as a NumPy array.

    Args:
        column: [n].
        name: its name, for errors.

    Returns:
        [n] booleans, integers, floats or strings; decimals become float64.

    Raises:
        DataError: missing or infinite values, or dates, lists and other types that are neither
            numbers nor strings.
    """
    if pt.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pt.is_decimal(kind):
        column = column.cast(pa.float64())
    elif _is_string(kind):
        column = column.cast(pa.string())
    elif not (
        pt.is_null(kind) or pt.is_boolean(kind) or pt.is_integer(kind) or pt.is_floating(kind)
    ):
        raise DataError(
            f"column {name!r} must hold numbers, booleans or strings; got {kind}. Convert it to a "
            "number (text to UTF-8) or drop it."
        )
    missing = pc.sum(column.is_null(nan_is_null=True)).as_py() or 0  # type: ignore[attr-defined]
    if missing:
        raise DataError(
            f"column {name!r} must have no missing values; {missing} of {len(column)} are missing. "
            'Fill them in or drop those rows (in .csv, quote a text that reads as missing: "NA").'
        )
    values = column.to_numpy()
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        n_infinite = int((~np.isfinite(values)).sum())
        raise DataError(
            f"column {name!r} must be finite; {n_infinite} of {len(values)} values are infinite. "
            "Replace them or drop those rows."
        )
    return values.astype(str) if values.dtype.kind == "O" else values


def features(
    columns: dict[str, np.ndarray],
) -> tuple[np.ndarray, tuple[str, ...], np.ndarray | None]:
    """All feature columns side by side.

    Args:
        columns: name → [n] booleans, numbers or strings.

    Returns:
        x [n, m] float64: numbers as they are, booleans 0 or 1, and for a string column of at most
        MAX_CATEGORIES distinct values one 0/1 column a value, named "column=value"; the m names;
        and the remaining string columns joined by line breaks, [n], or None where there are none.
    """
    parts: list[np.ndarray] = []
    names: list[str] = []
    texts: list[np.ndarray] = []
    for name, values in columns.items():
        if values.dtype.kind != "U":
            parts.append(values[:, None])
            names.append(name)
            continue
        categories = np.unique(values)
        if len(categories) > MAX_CATEGORIES:
            texts.append(values)
        else:
            parts.append(values[:, None] == categories)
            names += [f"{name}={category}" for category in categories]
    n = len(next(iter(columns.values())))
    x = np.hstack([np.zeros((n, 0)), *parts])
    joined = np.array(["\n".join(row) for row in zip(*texts, strict=True)]) if texts else None
    return x, tuple(names), joined


def _is_string(kind: pa.DataType) -> bool:
    return pt.is_string(kind) or pt.is_large_string(kind) or str(kind) == "string_view"
