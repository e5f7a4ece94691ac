"""What `datassay apply` does, for data in memory: decisions and suggestions → data of that kind."""

from pathlib import Path
from typing import Any

from datassay.act.review.corrections import corrections
from datassay.act.review.decisions import Decisions
from datassay.commands.apply.job import check_some_stay, without_targets
from datassay.commands.finished import UserData
from datassay.data.back.in_memory import (
    correct_frame,
    correct_labels,
    keep_inputs,
    original_frame,
)
from datassay.data.memory.frames import frame_table
from datassay.data.samples import SampleSet
from datassay.data.tables.read import OF_SAMPLES, Choices, join_targets
from datassay.errors import DataError


def correct_data(source: UserData, samples: SampleSet, decisions: Decisions) -> Any:
    """Return the data as decided: a frame, or (x, y), of the kind in which they were given.

    Args:
        source: the samples as they were given.
        samples: the training samples as they were read.
        decisions: about them.

    Raises:
        DataError: the data are no frame and no (x, y) arrays, or a decision does not fit them.
    """
    reading = source.reading
    data = source.data
    if reading.get("log_target"):
        decisions = without_targets(decisions)
    if frame_table(data) is not None:
        sample_options: dict[str, Any] = {name: reading.get(name) for name in OF_SAMPLES}
        choices = Choices(
            join_targets(reading.get("target")), reading.get("ids"), reading.get("source"),
            task=reading.get("task"), **sample_options,
        )  # fmt: skip
        original, noted = original_frame(data, choices)
        changes = corrections(
            decisions.decisions, original.ids, original.y, original.class_names,
            original.target_names,
        )  # fmt: skip
        check_some_stay(changes.keep)
        original.write(Path(), changes.keep, changes.y)
        for change in noted:  # one a target
            data = correct_frame(data, change)
        return data
    is_pair = isinstance(data, tuple | list) and len(data) == 2
    if not is_pair or source.is_loaded or len(data[1]) != len(samples):
        raise DataError(
            "data must be a frame or (x, y) arrays that are scored in full to be given back; for "
            "others save the results, and run datassay apply DATA REPORT."
        )
    changes = corrections(decisions.decisions, samples.ids, samples.y, samples.class_names)
    check_some_stay(changes.keep)
    inputs = keep_inputs(data[0], changes.keep)
    labels = correct_labels(data[1], samples.y, changes.y, changes.keep, samples.class_names)
    return inputs, labels
