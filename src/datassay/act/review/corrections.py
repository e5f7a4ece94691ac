"""Decisions applied to labels: which samples stay, and with which label."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, Shaped

from datassay.act.review.decisions import (
    RELABEL,
    REMOVE,
    Decision,
    Decisions,
    label_word,
    read_set,
    set_word,
)
from datassay.data.samples import SampleSet
from datassay.data.tables.numerals import number_of
from datassay.errors import DataError
from datassay.optional import text_if
from datassay.results import result

SHOWN = 5  # names in a message
TOLERANCE = 1e-3  # relative, of given targets: they were shown with four digits


@result
class Corrections:
    """Decisions applied to n labels, in the order of the samples.

    Attributes:
        keep: [n], False where the sample is removed.
        y: [n] or [n, k], the labels with new ones where that was decided.
        is_new: [n], where y differs from the label before.
        index: [d], the position of the sample of each decision.
    """

    keep: Bool[np.ndarray, " n"]
    y: Shaped[np.ndarray, " n *k"]
    is_new: Bool[np.ndarray, " n"]
    index: Int[np.ndarray, " d"]


def corrections(
    decisions: Sequence[Decision],
    ids: Shaped[np.ndarray, " n"],
    y: Shaped[np.ndarray, " n *k"],
    class_names: tuple[str, ...],
    target_names: tuple[str, ...] = (),
) -> Corrections:
    """Return labels after the decisions: "relabel" sets the label, "remove" drops the sample."""
    # "keep" and "unsure" change nothing. target_names: of several targets, each 0 or 1.
    position_of_id = {str(sample_id): i for i, sample_id in enumerate(ids.tolist())}
    unknown_ids = [str(d.id) for d in decisions if str(d.id) not in position_of_id]
    if unknown_ids:
        raise DataError(
            f"decisions must be about samples of the data; they have no id {_join(unknown_ids)}. "
            "Name the data that were reviewed, and the id column with --ids."
        )
    relabels = [d for d in decisions if d.decision == RELABEL]
    positions = np.array([position_of_id[str(d.id)] for d in decisions], dtype=np.int64)
    class_index = {name: i for i, name in enumerate(class_names)}
    unknown_classes = sorted({d.label for d in relabels if d.label not in class_index})
    if class_names and unknown_classes:
        raise DataError(
            "a new label must be a class of the data; they have no class "
            f"{_join(unknown_classes)}. The classes are {_join(class_names)}."
        )
    if not class_names and relabels and y.ndim > 1 and not target_names:
        raise DataError(
            f"decisions name one label per sample; these have {y.shape[1]}, so that none can be "
            "given another. Remove such samples, or correct the data by hand."
        )
    for position, decision in zip(positions, decisions, strict=True):
        if decision.given and y.ndim == 1:
            _check_given(decision, y[position].item(), class_names)
        if decision.given and target_names:
            _check_set(decision, set_word(target_names, y[position]))
    pairs = list(zip(positions, decisions, strict=True))
    keep = np.ones(len(ids), dtype=bool)
    keep[[position for position, d in pairs if d.decision == REMOVE]] = False
    changed = [position for position, d in pairs if d.decision == RELABEL]
    labels: list[Any] = [
        class_index[d.label] if class_names else _parse_target(d, target_names) for d in relabels
    ]
    # Whole numbers stay so while all new ones are: floats round them beyond 2^53.
    are_whole = all(isinstance(label, int) and abs(label) < 2**63 for label in labels)
    new_y = y.copy() if are_whole or y.dtype.kind == "f" else y.astype(np.float64)
    if changed:
        new_y[changed] = labels
    return Corrections(keep, new_y, (new_y != y).reshape(len(y), -1).any(axis=1), positions)


def corrected(samples: SampleSet, decisions: Decisions) -> SampleSet:
    """Apply decisions to samples: with new labels, and without the samples removed.

    Args:
        samples: with the labels that were seen.
        decisions: about them.

    Returns:
        The samples that stay, in their order, with their ids.

    Raises:
        DataError: an id or a class is unknown, or a label is not the one that was reviewed.
    """
    names = samples.target_names if samples.has_several_labels else ()
    changes = corrections(decisions.decisions, samples.ids, samples.y, samples.class_names, names)
    return replace(samples, y=changes.y).subset(changes.keep)


def _join(names: Sequence[str]) -> str:
    """Return the first SHOWN names, long ones cut, and the number of the others, as a phrase."""
    text = ", ".join(name if len(name) <= 80 else f"{name[:79]}…" for name in names[:SHOWN])
    return text + text_if(len(names) > SHOWN, f" and {len(names) - SHOWN:,} more")


def _check_given(decision: Decision, label: float, class_names: tuple[str, ...]) -> None:
    """Raise unless the label that was reviewed is still the data's."""
    data_label = label_word(class_names, label)
    reviewed_target = math.nan if class_names else _parse_number(decision.given)
    if data_label != decision.given and not math.isclose(reviewed_target, label, rel_tol=TOLERANCE):
        raise DataError(
            f"the label of {decision.id} must be the one that was reviewed, {decision.given!r}; "
            f"the data have {data_label!r}. Name the data that were reviewed; labels that a run "
            "flipped with --noise are in no file."
        )


def _check_set(decision: Decision, data_labels: str) -> None:
    """Raise if the labels that were reviewed are not those that the data have."""
    if decision.given != data_labels:
        raise DataError(
            f"the labels of {decision.id} must be those reviewed, {decision.given!r}; the data "
            f"have {data_labels!r}. Name the data that were reviewed."
        )


def _parse_target(decision: Decision, target_names: tuple[str, ...]) -> Any:
    """Return the new target, or targets, of a decision; raise if they are none."""
    if target_names:
        labels = read_set(target_names, decision.label)
        if labels is None:
            raise DataError(
                f"new labels must be names of {_join(target_names)}, joined by ' + ', or 'none'; "
                f"for {decision.id} they are {decision.label!r}. Decide anew."
            )
        return labels
    try:
        return number_of(decision.label)
    except ValueError:
        raise DataError(
            f"a new target must be a finite number; for {decision.id} it is {decision.label!r}. "
            "Decide anew, or remove that decision."
        ) from None


def _parse_number(text: str) -> float:
    """Return the number in a text; nan if there is none."""
    try:
        return number_of(text)
    except ValueError:
        return math.nan
