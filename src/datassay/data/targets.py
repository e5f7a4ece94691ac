"""Recognise the task from the targets, and code labels: as class indices, or as a network does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa

from datassay.data.samples import LabelType, SampleSet, are_several_labels, check_finite
from datassay.data.source import Task
from datassay.data.strings import as_arrow, compact
from datassay.data.tables.numerals import number_words
from datassay.data.tables.numeric import stray_words
from datassay.errors import DataError
from datassay.results import result

MAX_GUESSED_CLASSES = 20
SHAPES = "must be [n] labels or [n] or [n, k] numbers"
FEW = 10  # classes that an error names
_TYPES: dict[str, LabelType] = {"b": "boolean", "i": "integer", "u": "integer", "f": "number"}


def encode_targets(
    y: np.ndarray, y_val: np.ndarray | None, class_names: tuple[str, ...], task: Task | None
) -> tuple[np.ndarray, np.ndarray | None, tuple[str, ...]]:
    """Targets as later steps expect them: y, y_val and the class names."""
    # Classification: [n] int64 indices; regression: [n] or [n, k] float64, and no names.
    # class_names: what labels index or repeat; empty: the sorted unique labels of y. task None:
    # class_names mean classification, else `guess_task` decides.
    for name, given in (("y", y), ("y_val", y_val)):
        if given is not None and given.ndim > 2:
            raise DataError(f"{name} {SHAPES}; got shape {given.shape}. Reshape it.")
    y = check_column(y, "y")
    y_val = None if y_val is None else check_column(y_val, "y_val")
    if task is None:
        task = "classification" if class_names else _task_of(y)
    if task == "regression":
        y = _numbers(y, "y")
        if (y == y[0]).all():
            raise DataError(
                f"regression needs targets that differ; all {len(y)} in y are {y[0]}. Check the "
                "target."
            )
        return y, None if y_val is None else _numbers(y_val, "y_val"), ()
    if y.ndim > 1 or (y_val is not None and y_val.ndim > 1):
        raise DataError(
            f"classification needs one label per sample; y has shape {y.shape}. If its rows are "
            "one-hot, pass y.argmax(axis=1); if they are several labels, each 0 or 1, leave task "
            "out."
        )
    classes = np.arange(len(class_names)) if class_names else np.unique(y)
    names = class_names or tuple(map(label_name, classes))
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
    """Targets coded as those of a set that is there already: [n] indices, or float64."""
    # Labels are names of classes; numbers are so too where the names are numbers, and otherwise
    # index them. Of a regression (no names) whole numbers stay so where `dtype`, of that set, is
    # whole.
    y = check_column(y, "y")
    if not class_names:
        whole = dtype is not None and dtype.kind in "iu" and y.dtype.kind in "biu"
        return y.astype(np.int64) if whole else _numbers(y, "y")
    if y.ndim > 1:
        raise DataError(f"classification needs one label per sample; y has shape {y.shape}.")
    is_named = y.dtype.kind == "b"
    with suppress(ValueError):
        is_named = is_named or bool([float(name) for name in class_names])
    if is_named:
        y = np.array(list(map(label_name, y)))  # numbers: short
    return _indices(y, np.arange(len(class_names)), class_names, "y")


def target_warnings(y: np.ndarray, names: tuple[str, ...], *, is_guessed: bool) -> tuple[str, ...]:
    """What the user should know of targets that may be meant otherwise; names: of the classes."""
    if is_guessed and len(names) > 2 and y.dtype.kind in "iuf" and not _are_codes(np.unique(y)):
        return (
            f"The {len(names)} numbers of the target ({few(names)}) are read as classes, and each "
            "miss counts alike. If they are amounts or counts, set task to regression.",
        )
    plain = [" ".join(name.split()).casefold() for name in names]
    if len(set(plain)) < len(names):
        same = [n for n, p in zip(names, plain, strict=True) if plain.count(p) > 1]
        listed = few([repr(name) for name in sorted(same, key=str.casefold)])
        return (f"Classes differ in case or spaces alone: {listed}. Write them alike.",)
    if names or y.ndim < 2 or y.shape[1] < 2:
        return ()
    if are_several_labels(y):
        return (
            f"y holds {y.shape[1]} labels per sample, each 0 or 1: label_issues scores each; "
            "networks fit them as numbers, by squared error, where loss='bce' is not asked for.",
        )
    if y.dtype.kind in "iu":
        return (
            f"y holds whole numbers in {y.shape[1]} columns, fitted as {y.shape[1]} quantities. "
            "Several labels a sample are columns of 0 and 1, one a label; one class a sample is a "
            "single column.",
        )
    return ()


def few(names: Sequence[str]) -> str:
    """Names of classes for an error or a warning, the first of them."""
    return ", ".join(names[:FEW]) + ", ..." * (len(names) > FEW)


def label_type(y: np.ndarray) -> LabelType:
    """What the user's labels are, whose words name the classes."""
    return _TYPES.get(y.dtype.kind, "string")


def as_given(
    values: np.ndarray, class_names: tuple[str, ...], kind: LabelType = "string"
) -> pa.Array:
    """Labels, [n] indices, as the user gave them; targets as they are, several as lists."""
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
    if y.dtype.kind in "UO" or (y.dtype.kind == "b" and y.ndim == 1):
        return "classification"
    if y.ndim > 1:
        if are_several_labels(y) and (y.sum(axis=1) == 1).all():
            raise DataError(
                "y must hold one label per sample; its rows look one-hot. Pass y.argmax(axis=1), "
                "or set task='regression' to fit them as numbers."
            )
        return "regression"
    if not np.all(y == np.floor(y)):
        return "regression"
    distinct = np.unique(y)
    many = _are_codes(distinct) and len(y) >= 10 * len(distinct)
    return "classification" if many or len(distinct) <= MAX_GUESSED_CLASSES else "regression"


def _are_codes(distinct: np.ndarray) -> bool:
    """Whether they are 0..k−1 or 1..k."""
    return bool(distinct[0] in {0, 1} and distinct[-1] - distinct[0] == len(distinct) - 1)


def check_column(y: np.ndarray, name: str) -> np.ndarray:
    """Targets that are there, of a type that can be used, and finite; [n] where it is [n, 1]."""
    if y.ndim == 0 or y.size == 0:
        raise DataError(f"{name} {SHAPES}; got shape {y.shape}. Reshape it.")
    if y.dtype.kind not in "biufUO":
        raise DataError(
            f"{name} must hold numbers, booleans or strings; got {y.dtype}. Convert it."
        )
    if y.dtype.kind in "UO" and y.size == len(y):
        return compact(as_arrow(y.reshape(-1), name))
    check_finite(name, y)
    return y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y


def _task_of(y: np.ndarray) -> Task:
    """As `guess_task`; a quantity with stray words, else a class per value, is refused."""
    if y.dtype.kind not in "UO" or y.ndim > 1:
        return guess_task(y)
    words = as_arrow(y, "y")
    read = number_words(words)
    if read.is_mostly and len(words.unique()) > MAX_GUESSED_CLASSES:
        strays = stray_words(words, read.is_number)
        raise DataError(
            f"y must be labels or numbers; {read.is_number.sum()} of its {len(y)} strings are "
            f"numbers{strays and ', but '}{strays}. Pass numbers, or set task='classification' "
            "if they name classes."
        )
    return "classification"


def _numbers(y: np.ndarray, name: str) -> np.ndarray:
    if y.dtype.kind in "UO":
        raise DataError(
            f"regression needs numbers in {name}; got strings such as {str(y.flat[0])!r}. Set "
            "task='classification' or name another target."
        )
    return y.astype(np.float64, copy=False)


def label_name(value: np.generic | str) -> str:
    """How a label names its class; whole numbers without a fraction."""
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
            f"labels in {name} must lie among the {len(names)} classes ({few(names)}); got "
            f"{shown}. Fix the labels or add the class."
        )
    return indices.astype(np.int64)


@result
class Coding:
    """What decides how targets are coded for a network."""

    shape: Callable[[np.ndarray], tuple[int, ...]]  # input → [1, ...], of its outputs
    is_values: bool = False  # the loss compares numbers: then those of one output stay
    is_own: bool = False  # the loss is the user's own, which takes whatever numbers there are
    is_training: bool = True  # these samples name the classes, as those of the training do
    ignored: int | None = None  # the label of samples that do not count


def encode_for_outputs(
    y: np.ndarray, x: np.ndarray, class_names: tuple[str, ...], coding: Coding
) -> tuple[np.ndarray, tuple[str, ...], tuple[str, ...]]:
    """Targets as a network with these outputs takes them, class names, and what to tell."""
    # Whole numbers from 0 to k − 1 are the outputs' own, whichever of them occur; names and other
    # whole numbers of the training are in sorted order where they are as many as the outputs.
    # Numbers that are no classes, and targets of several outputs or places, have no names.
    y = check_column(y, "y")
    shape = coding.shape(x[:1])
    if class_names:
        y, _, names = encode_targets(y, None, class_names, "classification")
        return y, names, ()
    if y.ndim > 1 or len(shape) != 2:
        if y.dtype.kind in "UO":
            raise DataError(
                f"several targets per sample must be numbers; got strings in shape {y.shape}. Pass "
                "the numbers of their classes."
            )
        is_whole = len(shape) > 2 and y.dtype.kind in "biu"
        return y.astype(np.int64 if is_whole else np.float64), (), ()
    k = shape[1]
    if y.dtype.kind in "UO":
        return *_in_order(y, k, coding), ()
    y = y.astype(np.int64) if y.dtype.kind == "b" else y
    if coding.ignored is not None and y.dtype.kind in "iu" and (y == coding.ignored).any():
        return y.astype(np.int64), (), ()  # what the others are is checked batch by batch
    whole = y.dtype.kind in "iu" or bool((y == np.floor(y)).all())
    inside = whole and 0 <= y.min() and y.max() < max(k, 2)
    if (coding.is_own and not inside) or (k == 1 and (coding.is_own or coding.is_values)):
        return y if y.dtype.kind in "iu" else y.astype(np.float64), (), ()
    if inside:
        return y.astype(np.int64), tuple(map(str, range(max(k, 2)))), ()
    if k == 1 and (not whole or len(np.unique(y)) != 2):
        return y.astype(np.float64), (), ()
    indices, names = _in_order(y, k, coding)
    return indices, names, (renumbering(names),)


def _in_order(y: np.ndarray, k: int, coding: Coding) -> tuple[np.ndarray, tuple[str, ...]]:
    """Names, or numbers that index nothing: as many as outputs, in sorted order."""
    values, indices = np.unique(y, return_inverse=True)
    names = tuple(map(label_name, values))
    if coding.is_training and len(values) == max(k, 2):
        return indices.astype(np.int64), names
    if not coding.is_training:
        raise DataError(
            f"labels given with training samples whose classes have no names must be 0 to "
            f"{max(k, 2) - 1}, which index the network's outputs; got {few(names)}. Pass these "
            "numbers."
        )
    raise DataError(
        f"y must say which of the network's {k} outputs a label is of; its {len(values)} classes "
        f"({few(names)}) are not as many. Pass the outputs' numbers, 0 to {max(k, 2) - 1}, or a "
        "SampleSet with class_names of all outputs."
    )


def renumbering(names: tuple[str, ...]) -> str:
    """What is told of labels that are other numbers than the outputs."""
    return (
        "labels are taken for the network's outputs in rising order, counted from 0: "
        f"{few([f'{name} is {i}' for i, name in enumerate(names)])}. Pass 0 to k - 1 where it was "
        "trained otherwise."
    )


def indexed(
    samples: SampleSet, n_outputs: int, *, beside_loader: bool = False, own: bool = False
) -> SampleSet:
    """A set whose labels are the numbers of a network's outputs; a regression as it is."""
    # Of fewer classes than outputs, which are named by numbers from 0 to k − 1 as `load` names
    # those that it makes of integers, each label is its number again. beside_loader: the training
    # is a loader, whose labels are those numbers already. own: the user's loss takes other labels,
    # too.
    n, names = samples.n_classes, samples.class_names
    if not n or (n_outputs == 1 and n == 2):
        return samples
    numbers = None  # that the classes are named by; they are words
    with suppress(ValueError):
        if samples.label_type in {"integer", "number"}:
            numbers = [int(name) for name in names]
    inside = numbers is not None and 0 <= min(numbers) and max(numbers) < n_outputs
    if n == n_outputs and (inside or numbers is None):
        return samples
    if n == n_outputs and not beside_loader:
        reported = renumbering(names)
        known = own or reported in samples.warnings
        return samples if known else replace(samples, warnings=(*samples.warnings, reported))
    if numbers is not None and inside:
        return samples.recoded(numbers, tuple(map(str, range(n_outputs))), samples.label_type)
    if own and not beside_loader:
        return samples
    raise DataError(
        f"the samples must say which of the network's {n_outputs} outputs a class is; they have "
        f"{n} ({few(names)}). Pass labels 0 to {n_outputs - 1}, or a SampleSet with class_names "
        "of all outputs."
    )


def named_alike(samples: SampleSet, like: SampleSet) -> SampleSet:
    """A set with the class names of another, and labels as that has them."""
    if not like.class_names or samples.class_names == like.class_names:
        return samples
    unknown = [name for name in samples.class_names if name not in like.class_names]
    if not samples.class_names or unknown:
        raise DataError(
            f"both sets must have the same classes; the training samples have "
            f"{few(like.class_names)}, the other also {few(unknown) or 'numbers (regression)'}. "
            "Load both the same way."
        )
    codes = [like.class_names.index(name) for name in samples.class_names]
    return samples.recoded(codes, like.class_names, like.label_type)
