"""Labels as a network has them: whole numbers that index its outputs stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from datassay.data.samples import LabelType, SampleSet
from datassay.data.targets import check_column, encode_targets
from datassay.errors import DataError
from datassay.results import result

# Classes that an error names.
FEW = 10


@result
class Coding:
    """What decides how targets are coded for a network.

    Attributes:
        shape: of the network's outputs of one input, [1, ...]; of the input given.
        is_values: whether the loss compares numbers: then those of one output stay.
        is_own: whether the loss is the user's own, which takes whatever numbers there are.
        is_training: whether these samples name the classes, as those of the training do.
        ignored: the label of samples that do not count.
    """

    shape: Callable[[np.ndarray], tuple[int, ...]]
    is_values: bool = False
    is_own: bool = False
    is_training: bool = True
    ignored: int | None = None


def encode_for_outputs(
    y: np.ndarray, x: np.ndarray, class_names: tuple[str, ...], coding: Coding
) -> tuple[np.ndarray, tuple[str, ...], tuple[str, ...]]:
    """Targets as a network with these outputs takes them.

    Args:
        y: [n], [n, 1] or [n, ...], as read.
        x: [n, ...], the inputs.
        class_names: that the source gives; mostly empty.
        coding: of the network.

    Returns:
        y, class names, and what the user should know. Whole numbers from 0 to k − 1 are the
        outputs' own, whichever of them occur; names and other whole numbers of the training are in
        sorted order where they are as many as the outputs. Numbers that are no classes, and targets
        of several outputs or places, have no names.

    Raises:
        DataError: which label is which output cannot be told; the classes are named.
    """
    y = check_column(y, "y")
    shape = coding.shape(x[:1])
    if class_names:
        y, _, names = encode_targets(y, None, class_names, "classification")
        return y, names, ()
    if y.ndim > 1 or len(shape) != 2:
        return _of_several(y, len(shape) > 2), (), ()
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


def _of_several(y: np.ndarray, has_places: bool) -> np.ndarray:
    if y.dtype.kind in "UO":
        raise DataError(
            f"several targets a sample must be numbers; got strings in shape {y.shape}. Pass the "
            "numbers of their classes."
        )
    if has_places and y.dtype.kind in "biu":
        return y.astype(np.int64)
    return y.astype(np.float64)


def _in_order(y: np.ndarray, k: int, coding: Coding) -> tuple[np.ndarray, tuple[str, ...]]:
    """Names, or numbers that index nothing: as many as outputs, in sorted order."""
    values, indices = np.unique(y, return_inverse=True)
    names = tuple(
        str(int(v)) if y.dtype.kind == "f" and v == np.floor(v) else str(v) for v in values
    )
    if coding.is_training and len(values) == max(k, 2):
        return indices.astype(np.int64), names
    shown = ", ".join(names[:FEW]) + (", ..." if len(names) > FEW else "")
    if not coding.is_training:
        raise DataError(
            f"labels beside training samples whose classes have no names must be 0 to "
            f"{max(k, 2) - 1}, which index the network's outputs; got {shown}. Pass these numbers."
        )
    raise DataError(
        f"y must say which of the network's {k} outputs a label is of; its {len(values)} classes "
        f"({shown}) are not as many. Pass the outputs' numbers, 0 to {max(k, 2) - 1}, or a "
        "SampleSet with class_names of all outputs."
    )


def renumbering(names: tuple[str, ...]) -> str:
    """What is told of labels that are other numbers than the outputs."""
    pairs = ", ".join(f"{name} is {i}" for i, name in enumerate(names[:FEW]))
    more = ", ..." if len(names) > FEW else ""
    return (
        f"labels are taken for the network's outputs in rising order, counted from 0: {pairs}{more}"
        ". Pass 0 to k - 1 where it was trained otherwise."
    )


def indexed(
    samples: SampleSet, n_outputs: int, *, beside_loader: bool = False, own: bool = False
) -> SampleSet:
    """A set whose labels are the numbers of a network's outputs.

    Args:
        samples: of classes; a regression is handed back as it is.
        n_outputs: k.
        beside_loader: whether the training is a loader, whose labels are those numbers already.
        own: whether the loss is the user's own, and takes other labels too.

    Returns:
        The set. Where it has fewer classes than outputs, and they are named by numbers from 0 to
        k − 1, as those are that `load` makes of integers, each label is its number again.

    Raises:
        DataError: which class is which output cannot be told.
    """
    n, names = samples.n_classes, samples.class_names
    if not n or (n_outputs == 1 and n == 2):
        return samples
    numbers = _numbers(samples.class_names, samples.label_type)
    inside = numbers is not None and 0 <= min(numbers) and max(numbers) < n_outputs
    if n == n_outputs and (inside or numbers is None):
        return samples
    if n == n_outputs and not beside_loader:
        told = renumbering(names)
        known = own or told in samples.warnings
        return samples if known else replace(samples, warnings=(*samples.warnings, told))
    if numbers is not None and inside:
        codes = np.array(numbers)
        true = samples.true_y
        return replace(
            samples,
            y=codes[samples.y],
            true_y=None if true is None else codes[true],
            class_names=tuple(map(str, range(n_outputs))),
        )
    if own and not beside_loader:
        return samples
    shown = ", ".join(names[:FEW]) + (", ..." if len(names) > FEW else "")
    raise DataError(
        f"the samples must say which of the network's {n_outputs} outputs a class is; they have "
        f"{n} ({shown}). Pass labels 0 to {n_outputs - 1}, or a SampleSet with class_names of all "
        "outputs."
    )


def _numbers(names: tuple[str, ...], kind: LabelType) -> list[int] | None:
    """The numbers that the classes are named by; None where they are words."""
    if kind not in {"integer", "number"}:
        return None
    try:
        return [int(name) for name in names]
    except ValueError:
        return None


def named_alike(samples: SampleSet, like: SampleSet) -> SampleSet:
    """A set with the class names of another, and labels as that has them."""
    if not like.class_names or samples.class_names == like.class_names:
        return samples
    unknown = [name for name in samples.class_names if name not in like.class_names]
    if not samples.class_names or unknown:
        what = ", ".join(unknown[:FEW]) or "numbers (regression)"
        raise DataError(
            f"both sets must have the same classes; the training samples have "
            f"{', '.join(like.class_names[:FEW])}, the other also {what}. Load both the same way."
        )
    codes = np.array([like.class_names.index(name) for name in samples.class_names])
    true = samples.true_y
    return replace(
        samples,
        y=codes[samples.y],
        true_y=None if true is None else codes[true],
        class_names=like.class_names,
        label_type=like.label_type,
    )
