"""Recognise the task from the targets, and encode labels as class indices."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from datassay.data.samples import LabelType, are_several_labels
from datassay.data.source import Task
from datassay.data.strings import as_arrow, compact
from datassay.data.tables.numeric import number_words, stray_words
from datassay.errors import DataError

MAX_GUESSED_CLASSES = 20
_TYPES: dict[str, LabelType] = {"b": "boolean", "i": "integer", "u": "integer", "f": "number"}


def encode_targets(
    y: np.ndarray, y_val: np.ndarray | None, class_names: tuple[str, ...], task: Task | None
) -> tuple[np.ndarray, np.ndarray | None, tuple[str, ...]]:
    """Targets as later steps expect them.

    Args:
        y: [n], [n, 1] or [n, k], as read.
        y_val: the validation targets, if the source has its own.
        class_names: the names that labels index or repeat; empty: the sorted unique labels of y.
        task: what to predict; None: class_names mean classification, else `guess_task` decides.

    Returns:
        y, y_val and the class names. Classification: [n] int64 indices. Regression: [n] or [n, k]
        float64, and no names.

    Raises:
        DataError: targets of a wrong shape or type, missing or infinite ones, fewer than two
            classes, numbers that are all the same, many strings of which nearly all are numbers, or
            validation labels that no training sample has.
    """
    y = _column(y, "y")
    y_val = None if y_val is None else _column(y_val, "y_val")
    if task is None and not class_names:
        _check_words(y)
    if task is None:
        task = "classification" if class_names else guess_task(y)
    if task == "regression":
        return _varied(_numbers(y, "y")), None if y_val is None else _numbers(y_val, "y_val"), ()
    if y.ndim > 1 or (y_val is not None and y_val.ndim > 1):
        raise DataError(
            f"classification needs one label a sample; y has shape {y.shape}. If its rows are "
            "one-hot, pass y.argmax(axis=1); if they are several labels, each 0 or 1, leave task "
            "out."
        )
    classes = np.arange(len(class_names)) if class_names else np.unique(y)
    names = class_names or tuple(_label_name(value) for value in classes)
    indices = _indices(y, classes, names, "y")
    present = np.unique(indices)
    if len(present) < 2:
        raise DataError(
            f"classification needs at least 2 classes; y has one class only, {names[present[0]]}. "
            "Check the target, or set task='regression'."
        )
    return indices, None if y_val is None else _indices(y_val, classes, names, "y_val"), names


def encode_like(
    y: np.ndarray, class_names: tuple[str, ...], dtype: np.dtype | None = None
) -> np.ndarray:
    """Targets coded as those of a set that is there already.

    Args:
        y: [n], [n, 1] or [n, k], as read. Labels are names of classes; numbers are so too where the
            names are numbers, and otherwise index them.
        class_names: of that set; empty: a regression.
        dtype: of that set's targets: whole numbers stay so where they are whole there.

    Returns:
        [n] int64 indices, or [n] or [n, k] float64.

    Raises:
        DataError: targets of a wrong shape or type, missing ones, or labels of no class.
    """
    y = check_column(y, "y")
    if not class_names:
        whole = dtype is not None and dtype.kind in "iu" and y.dtype.kind in "biu"
        return y.astype(np.int64) if whole else _numbers(y, "y")
    if y.ndim > 1:
        raise DataError(f"classification needs one label a sample; y has shape {y.shape}.")
    if y.dtype.kind == "b" or all(map(_is_number, class_names)):
        y = np.array([_label_name(value) for value in y])  # numbers: short
    return _indices(y, np.arange(len(class_names)), class_names, "y")


def target_warnings(y: np.ndarray, task: Task) -> tuple[str, ...]:
    """What the user should know of several targets a sample.

    Args:
        y: [n] or [n, k], as read.
        task: that was taken.

    Returns:
        A line where they are several labels, and one where they are whole numbers, which may have
        been meant as labels.
    """
    if task != "regression" or y.ndim < 2 or y.shape[1] < 2:
        return ()
    if are_several_labels(y):
        return (
            f"y holds {y.shape[1]} labels a sample, each 0 or 1: label_issues judges each of them; "
            "networks fit them as numbers, by squared error, where loss='bce' is not asked for.",
        )
    if y.dtype.kind in "iu":
        return (
            f"y holds whole numbers in {y.shape[1]} columns, fitted as {y.shape[1]} quantities. "
            "Several labels a sample are columns of 0 and 1, one a label; one class a sample is a "
            "single column.",
        )
    return ()


def label_type(y: np.ndarray) -> LabelType:
    """What the user's labels are, whose words name the classes."""
    # Gives "string" of all that is neither a boolean nor a number.
    return _TYPES.get(y.dtype.kind, "string")


def as_given(
    values: np.ndarray, class_names: tuple[str, ...], kind: LabelType = "string"
) -> pa.Array:
    """Labels as the user gave them: strings, whole numbers, booleans or numbers.

    Args:
        values: [n] class indices; of a regression [n] or [n, k] targets.
        class_names: in index order; empty: a regression.
        kind: of the user's labels.

    Returns:
        [n]; lists of several targets. Names that are not of that kind stay strings.
    """
    if not class_names:
        return pa.array(values.tolist())
    names: list[object] = list(class_names)
    try:
        if kind == "integer":
            names = [int(name) for name in class_names]
        elif kind == "number":
            names = [float(name) for name in class_names]
        elif kind == "boolean" and set(class_names) <= {"True", "False"}:
            names = [name == "True" for name in class_names]
    except ValueError:  # renamed since
        pass
    return pa.array([names[int(label)] for label in values], None if len(values) else pa.string())


def guess_task(y: np.ndarray) -> Task:
    """Whether targets are labels or quantities."""
    # Strings and booleans are labels. Whole numbers (integers, or floats without a fraction) are
    # labels where they have at most 20 distinct values, or where they are exactly 0..k−1 or 1..k
    # with 10 samples or more a class on average. Everything else is a quantity, and so are several
    # booleans a sample: its labels, each 0 or 1.
    # y: [n] or [n, k] finite targets.
    if y.dtype.kind in "UO" or (y.dtype.kind == "b" and y.ndim == 1):
        return "classification"
    if y.ndim > 1:
        if are_several_labels(y) and (y.sum(axis=1) == 1).all():
            raise DataError(
                "y must hold one label a sample; its rows look one-hot. Pass y.argmax(axis=1), or "
                "set task='regression' to fit them as numbers."
            )
        return "regression"
    if not np.all(y == np.floor(y)):
        return "regression"
    distinct = np.unique(y)
    consecutive = distinct[0] in {0, 1} and distinct[-1] - distinct[0] == len(distinct) - 1
    few = len(distinct) <= MAX_GUESSED_CLASSES
    return (
        "classification" if few or (consecutive and len(y) >= 10 * len(distinct)) else "regression"
    )


def _column(y: np.ndarray, name: str) -> np.ndarray:
    if y.ndim > 2:
        raise DataError(
            f"{name} must be [n] labels or [n] or [n, k] numbers; got shape {y.shape}. Reshape it."
        )
    return check_column(y, name)


def check_column(y: np.ndarray, name: str) -> np.ndarray:
    """Targets that are there, of a type that can be used, and finite; [n] where it is [n, 1]."""
    # y: [n], [n, 1] or [n, ...], as read.
    if y.ndim == 0 or y.size == 0:
        raise DataError(
            f"{name} must be [n] labels or [n] or [n, k] numbers; got shape {y.shape}. Reshape it."
        )
    if y.dtype.kind not in "biufUO":
        raise DataError(
            f"{name} must hold numbers, booleans or strings; got {y.dtype}. Convert it."
        )
    if y.dtype.kind in "UO" and y.size == len(y):
        return compact(as_arrow(y.reshape(-1), name))
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        bad = np.flatnonzero(~np.isfinite(y.reshape(len(y), -1)).all(axis=1))
        raise DataError(
            f"{name} must be finite; {len(bad)} of {len(y)} targets are NaN or infinite, the "
            f"first at position {bad[0]}. Remove those samples."
        )
    return y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y


def _check_words(y: np.ndarray) -> None:
    """Refuse a quantity with stray words, which would else be a class a value."""
    if y.dtype.kind not in "UO" or y.ndim > 1:
        return
    words = as_arrow(y, "y")
    read = number_words(words)
    if read.is_mostly and len(words.unique()) > MAX_GUESSED_CLASSES:
        count, shown = stray_words(words, read.is_number)
        strays = (
            f", but {count} {'is none' if count == 1 else 'are none'}: {shown}" if count else ""
        )
        raise DataError(
            f"y must be labels or numbers; {read.is_number.sum()} of its {len(y)} strings are "
            f"numbers{strays}. Pass numbers, or set task='classification' if they name classes."
        )


def _varied(y: np.ndarray) -> np.ndarray:
    if (y == y[0]).all():
        raise DataError(
            f"regression needs targets that differ; all {len(y)} in y are {y[0]}. Check the target."
        )
    return y


def _numbers(y: np.ndarray, name: str) -> np.ndarray:
    if y.dtype.kind in "UO":
        raise DataError(
            f"regression needs numbers in {name}; got strings such as {str(y.flat[0])!r}. Set "
            "task='classification' or name another target."
        )
    return y.astype(np.float64, copy=False)


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _label_name(value: np.generic | str) -> str:
    if isinstance(value, str):
        return str(value)
    if value.dtype.kind == "f" and value == np.floor(value):
        return str(int(value))
    return str(value)


def _indices(y: np.ndarray, classes: np.ndarray, names: tuple[str, ...], name: str) -> np.ndarray:
    if y.dtype.kind in "UO" and classes.dtype.kind not in "UO":
        classes = compact(as_arrow(np.array(names, dtype=object), "class names"))
    if (y.dtype.kind in "UO") != (classes.dtype.kind in "UO"):
        raise DataError(
            f"{name} must name its classes as y does, by strings; got {y.dtype}. Use one type."
        )
    order = np.argsort(classes)
    nearest = np.searchsorted(classes, y, sorter=order).clip(max=len(classes) - 1)
    indices = order[nearest]
    unknown = np.unique(y[classes[indices] != y])
    if len(unknown):
        shown = ", ".join(str(value) for value in unknown[:5])
        raise DataError(
            f"labels in {name} must lie among the {len(names)} classes ({', '.join(names[:10])}"
            f"{', ...' if len(names) > 10 else ''}); got {shown}. Fix the labels or add the class."
        )
    return indices.astype(np.int64)
