"""Recognise the task from the targets, and code labels: as class indices, or as a network does."""

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
from datassay.optional import text_if
from datassay.results import result

MAX_GUESSED_CLASSES = 20
SHAPES = "must be [n] labels or [n] or [n, k] numbers"
FEW = 10  # classes that an error names
_TYPES: dict[str, LabelType] = {"b": "boolean", "i": "integer", "u": "integer", "f": "number"}


def encode_targets(
    y: np.ndarray, y_val: np.ndarray | None, class_names: tuple[str, ...], task: Task | None
) -> tuple[np.ndarray, np.ndarray | None, tuple[str, ...]]:
    """Return y and y_val as class indices or float64, and the class names, () of numbers."""
    # Classification: y is [n] int64 indices; regression: [n] or [n, k] float64, without names.
    # class_names: what labels index or repeat; empty: the sorted unique labels of y. task None:
    # class_names mean classification, else `guess_task` decides.
    for name, targets in (("y", y), ("y_val", y_val)):
        if targets is not None and targets.ndim > 2:
            raise DataError(f"{name} {SHAPES}; got shape {targets.shape}. Reshape it.")
    y = check_column(y, "y")
    if y_val is not None:
        y_val = check_column(y_val, "y_val")
    if task is None:
        task = "classification" if class_names else _guess_task(y)
    if task == "regression":
        return (*_encode_numbers(y, y_val), ())
    return _encode_classes(y, y_val, class_names)


def _encode_numbers(
    y: np.ndarray, y_val: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return regression targets as float64; raise if they are all equal."""
    y = _check_numbers(y, "y")
    if (y == y[0]).all():
        raise DataError(
            f"regression needs targets that differ; all {len(y)} in y are {y[0]}. Check the target."
        )
    if y_val is not None:
        y_val = _check_numbers(y_val, "y_val")
    return y, y_val


def _encode_classes(
    y: np.ndarray, y_val: np.ndarray | None, class_names: tuple[str, ...]
) -> tuple[np.ndarray, np.ndarray | None, tuple[str, ...]]:
    """Return labels as class indices, and the class names; raise if there is one class."""
    if y.ndim > 1 or (y_val is not None and y_val.ndim > 1):
        raise DataError(
            f"classification needs one label per sample; y has shape {y.shape}. If its rows are "
            "one-hot, pass y.argmax(axis=1); if they are several labels, each 0 or 1, leave task "
            "out."
        )
    classes = np.arange(len(class_names)) if class_names else np.unique(y)
    names = class_names or tuple(map(label_name, classes))
    indices = _index(y, classes, names, "y")
    present = np.unique(indices)
    if len(present) < 2:
        raise DataError(
            f"classification needs at least 2 classes; y has one class only, {names[present[0]]}. "
            "Check the target, or set task='regression'."
        )
    if y_val is not None:
        y_val = _index(y_val, classes, names, "y_val")
    return indices, y_val, names


def encode_like(
    y: np.ndarray, class_names: tuple[str, ...], dtype: np.dtype | None = None
) -> np.ndarray:
    """Return targets coded as an existing set's: class indices [n], or float64."""
    # Strings name classes. Numbers name them if all names are numbers, else index them. Without
    # class_names, a regression, whole numbers stay whole if `dtype`, of that set, is.
    y = check_column(y, "y")
    if not class_names:
        is_whole = dtype is not None and dtype.kind in "iu" and y.dtype.kind in "biu"
        if is_whole:
            return y.astype(np.int64)
        return _check_numbers(y, "y")
    if y.ndim > 1:
        raise DataError(f"classification needs one label per sample; y has shape {y.shape}.")
    is_named = y.dtype.kind == "b"
    with suppress(ValueError):  # a name that is no number
        is_named = is_named or bool([float(name) for name in class_names])
    if is_named:
        y = np.array(list(map(label_name, y)))
    return _index(y, np.arange(len(class_names)), class_names, "y")


def target_warnings(y: np.ndarray, names: tuple[str, ...], *, is_guessed: bool) -> tuple[str, ...]:
    """Return warnings of labels that may be numbers, or class names that look alike."""
    # is_guessed: whether nobody said that they are classes.
    if is_guessed and len(names) > 2 and y.dtype.kind in "iuf" and not _are_codes(np.unique(y)):
        return (
            f"The {len(names)} numbers of the target ({shorten(names)}) are read as classes, and "
            "each miss counts alike. If they are amounts or counts, set task to regression.",
        )
    folded = [" ".join(name.split()).casefold() for name in names]
    if len(set(folded)) < len(names):
        alike_names = [n for n, f in zip(names, folded, strict=True) if folded.count(f) > 1]
        examples = shorten([repr(name) for name in sorted(alike_names, key=str.casefold)])
        return (f"Classes differ in case or spaces alone: {examples}. Write them alike.",)
    if names or y.ndim < 2 or y.shape[1] < 2:
        return ()
    if are_several_labels(y):
        return (
            f"Each of the {y.shape[1]} targets is 0 or 1: their labels are judged one by one, and "
            "networks fit them as numbers, by squared error.",
        )
    if y.dtype.kind in "iu":
        return (
            f"y holds whole numbers in {y.shape[1]} columns, fitted as {y.shape[1]} quantities. "
            "Several labels a sample are columns of 0 and 1, one a label; one class a sample is a "
            "single column.",
        )
    return ()


def shorten(names: Sequence[str]) -> str:
    """Return the first of some class names, as text for an error or a warning."""
    return ", ".join(names[:FEW]) + text_if(len(names) > FEW, ", ...")


def label_type(y: np.ndarray) -> LabelType:
    """Return the type of the user's labels, whose words name the classes."""
    return _TYPES.get(y.dtype.kind, "string")


def as_given(
    values: np.ndarray, class_names: tuple[str, ...], kind: LabelType = "string"
) -> pa.Array:
    """Return class indices as the user's labels, [n]; without classes the targets."""
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
    labels = [names[int(index)] for index in values]
    return pa.array(labels, None if labels else pa.string())  # Arrow finds no type of no values


def guess_task(y: np.ndarray) -> Task:
    """Return "classification" if targets look like labels, else "regression"."""
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
    are_codes = _are_codes(distinct) and len(y) >= 10 * len(distinct)
    if are_codes or len(distinct) <= MAX_GUESSED_CLASSES:
        return "classification"
    return "regression"


def _are_codes(distinct: np.ndarray) -> bool:
    """Return whether distinct values are 0..k−1 or 1..k."""
    return bool(distinct[0] in {0, 1} and distinct[-1] - distinct[0] == len(distinct) - 1)


def check_column(y: np.ndarray, name: str) -> np.ndarray:
    """Return targets with type and finiteness checked; [n, 1] becomes [n]."""
    if y.ndim == 0 or y.size == 0:
        raise DataError(f"{name} {SHAPES}; got shape {y.shape}. Reshape it.")
    if y.dtype.kind not in "biufUO":
        raise DataError(
            f"{name} must hold numbers, booleans or strings; got {y.dtype}. Convert it."
        )
    if y.dtype.kind in "UO" and y.size == len(y):
        return compact(as_arrow(y.reshape(-1), name))
    check_finite(name, y)
    if y.ndim == 2 and y.shape[1] == 1:
        return y[:, 0]
    return y


def _guess_task(y: np.ndarray) -> Task:
    """Return `guess_task`'s answer; raise if numbers are mixed with a few other words."""
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


def _check_numbers(y: np.ndarray, name: str) -> np.ndarray:
    """Return targets as float64; raise if they are strings."""
    if y.dtype.kind in "UO":
        raise DataError(
            f"regression needs numbers in {name}; got strings such as {str(y.flat[0])!r}. Set "
            "task='classification' or name another target."
        )
    return y.astype(np.float64, copy=False)


def label_name(value: np.generic | str) -> str:
    """Return the class name of a label, such as "3" for 3.0."""
    if isinstance(value, str):
        return str(value)
    if value.dtype.kind == "f" and value == np.floor(value):
        return str(int(value))
    return str(value)


def _index(y: np.ndarray, classes: np.ndarray, names: tuple[str, ...], name: str) -> np.ndarray:
    """Return each label's index among `classes`, [n]; raise if a label is unknown."""
    # classes: as y holds them; names: in words; name: of y, in an error.
    if y.dtype.kind in "UO" and classes.dtype.kind not in "UO":
        classes = compact(as_arrow(np.array(names, dtype=object), "class names"))
    if (y.dtype.kind in "UO") != (classes.dtype.kind in "UO"):
        raise DataError(
            f"{name} must name its classes as y does, by strings; got {y.dtype}. Use one type."
        )
    order = np.argsort(classes)
    rank = np.searchsorted(classes, y, sorter=order).clip(max=len(classes) - 1)
    indices = order[rank]
    unknown = np.unique(y[classes[indices] != y])
    if len(unknown):
        examples = ", ".join(str(value) for value in unknown[:5])
        raise DataError(
            f"labels in {name} must lie among the {len(names)} classes ({shorten(names)}); got "
            f"{examples}. Fix the labels or add the class."
        )
    return indices.astype(np.int64)


@result
class Coding:
    """What decides how targets are coded for a network."""

    shape: Callable[[np.ndarray], tuple[int, ...]]  # input [1, ...] → shape of its outputs
    is_values: bool = False  # the loss compares numbers: targets of one output stay numbers
    is_own: bool = False  # the loss is the user's own, which takes whatever numbers there are
    is_training: bool = True  # these samples name the classes, as those of the training do
    ignored: int | None = None  # the label of samples that do not count


def encode_for_outputs(
    y: np.ndarray, x: np.ndarray, class_names: tuple[str, ...], coding: Coding
) -> tuple[np.ndarray, tuple[str, ...], tuple[str, ...]]:
    """Return targets coded for a network's outputs, the class names, and warnings."""
    # k outputs: whole numbers from 0 to k − 1 are the outputs' own, whichever of them occur. Names
    # and other whole numbers of the training are numbered in sorted order if they are as many as
    # the outputs. Numbers that are no classes, and several targets a sample, have no names.
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
        are_indices = len(shape) > 2 and y.dtype.kind in "biu"
        return y.astype(np.int64 if are_indices else np.float64), (), ()
    k = shape[1]
    n_classes = max(k, 2)  # one output tells two classes
    if y.dtype.kind in "UO":
        return *_encode_sorted(y, k, coding), ()
    if y.dtype.kind == "b":
        y = y.astype(np.int64)
    if coding.ignored is not None and y.dtype.kind in "iu" and (y == coding.ignored).any():
        return y.astype(np.int64), (), ()  # what the others are is checked batch by batch
    is_whole = y.dtype.kind in "iu" or bool((y == np.floor(y)).all())
    is_inside = is_whole and 0 <= y.min() and y.max() < n_classes
    if (coding.is_own and not is_inside) or (k == 1 and (coding.is_own or coding.is_values)):
        return y if y.dtype.kind in "iu" else y.astype(np.float64), (), ()
    if is_inside:
        return y.astype(np.int64), tuple(map(str, range(n_classes))), ()
    if k == 1 and (not is_whole or len(np.unique(y)) != 2):
        return y.astype(np.float64), (), ()
    indices, names = _encode_sorted(y, k, coding)
    return indices, names, (renumbering_warning(names),)


def _encode_sorted(y: np.ndarray, k: int, coding: Coding) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return class indices and names in sorted order, if there are k classes, else raise."""
    values, indices = np.unique(y, return_inverse=True)
    names = tuple(map(label_name, values))
    if coding.is_training and len(values) == max(k, 2):
        return indices.astype(np.int64), names
    if not coding.is_training:
        raise DataError(
            f"labels given with training samples whose classes have no names must be 0 to "
            f"{max(k, 2) - 1}, which index the network's outputs; got {shorten(names)}. Pass these "
            "numbers."
        )
    raise DataError(
        f"y must say which of the network's {k} outputs a label is of; its {len(values)} classes "
        f"({shorten(names)}) are not as many. Pass the outputs' numbers, 0 to {max(k, 2) - 1}, or "
        "a SampleSet with class_names of all outputs."
    )


def renumbering_warning(names: tuple[str, ...]) -> str:
    """Return a warning that labels are not the numbers of the outputs."""
    return (
        "labels are taken for the network's outputs in rising order, counted from 0: "
        f"{shorten([f'{name} is {i}' for i, name in enumerate(names)])}. Pass 0 to k - 1 where it "
        "was trained otherwise."
    )


def recode_for_outputs(
    samples: SampleSet, n_outputs: int, *, beside_loader: bool = False, is_own: bool = False
) -> SampleSet:
    """Return a set whose labels are indices of a network's outputs; a regression unchanged."""
    # - As many classes as outputs stay as they are; names that are other numbers are warned of, but
    #   refused beside_loader, whose training samples are labelled by output.
    # - Fewer classes, named by numbers from 0 to k − 1 as `load` names integers: each label becomes
    #   the number that names its class.
    # - Others stay if the loss is the user's (is_own), which takes any labels, else are refused.
    n = samples.n_classes
    names = samples.class_names
    if not n or (n_outputs == 1 and n == 2):
        return samples
    numbers = None  # the names of the classes; None: these are words
    with suppress(ValueError):
        if samples.label_type in {"integer", "number"}:
            numbers = [int(name) for name in names]
    is_inside = numbers is not None and 0 <= min(numbers) and max(numbers) < n_outputs
    if n == n_outputs and (is_inside or numbers is None):
        return samples
    if n == n_outputs and not beside_loader:
        warning = renumbering_warning(names)
        is_known = is_own or warning in samples.warnings
        if is_known:
            return samples
        return replace(samples, warnings=(*samples.warnings, warning))
    if numbers is not None and is_inside:
        return samples.recode(numbers, tuple(map(str, range(n_outputs))), samples.label_type)
    if is_own and not beside_loader:
        return samples
    raise DataError(
        f"the samples must say which of the network's {n_outputs} outputs a class is; they have "
        f"{n} ({shorten(names)}). Pass labels 0 to {n_outputs - 1}, or a SampleSet with "
        "class_names of all outputs."
    )


def recode_like(samples: SampleSet, reference: SampleSet) -> SampleSet:
    """Return a set with the reference's class names, its labels recoded by name."""
    if not reference.class_names or samples.class_names == reference.class_names:
        return samples
    unknown = [name for name in samples.class_names if name not in reference.class_names]
    if not samples.class_names or unknown:
        raise DataError(
            f"both sets must have the same classes; the training samples have "
            f"{shorten(reference.class_names)}, the other also "
            f"{shorten(unknown) or 'numbers (regression)'}. Load both the same way."
        )
    codes = [reference.class_names.index(name) for name in samples.class_names]
    return samples.recode(codes, reference.class_names, reference.label_type)
