"""Decisions that were made in Label Studio, from the JSON that it exports."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from datassay.act.review.decisions import (
    KEEP,
    RELABEL,
    REMOVE,
    UNSURE,
    Decision,
    Decisions,
    label_word,
)
from datassay.data.source import reading
from datassay.errors import DataError
from datassay.optional import read_entry, text_if

# Names of the controls, and of a task's further fields, as `datassay export` writes them.
LABEL, FATE = "label", "fate"
ID = "sample_id"
GIVEN = "given_label"
SEEN = "wrong_probability"
DIGEST = "data_digest"
INPUTS = "data_inputs"


def read_label_studio(path: str | Path) -> Decisions:
    """Return the decisions in Label Studio's JSON export of a project of `datassay export`."""
    # The latest annotation of a sample counts. A label other than the given one is "relabel", the
    # given one is "keep"; "remove" or "unsure" where that was chosen, or the task was skipped. A
    # task without an annotation was not decided on.
    path = Path(path)
    if not path.exists():
        raise DataError(f"{path} must be a Label Studio export; there is none. Check the path.")
    with reading(path):
        tasks = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(tasks, list) or not all(map(_is_task, tasks)):
        raise DataError(
            f"{path} must be what Label Studio exports as JSON, with the tasks of datassay export; "
            "it is not. Choose the format JSON there, not JSON-MIN."
        )
    with reading(path):
        digests = {str(task["data"][DIGEST]) for task in tasks}
        by_task = [_read_task(task, path) for task in tasks]
    if len(digests) > 1:
        raise DataError(f"{path} must be about one data set; it has tasks of {len(digests)}.")
    inputs = {}
    if tasks:
        inputs = tasks[0]["data"].get(INPUTS) or {}
    by_time = sorted((d for d in by_task if d is not None), key=lambda decision: decision.when)
    latest = {d.id: d for d in by_time}  # a project may hold a sample twice
    decisions = [d for d in by_time if latest[d.id] is d]
    return Decisions(tuple(decisions), digest=next(iter(digests), ""), inputs=inputs)


def _is_task(task: Any) -> bool:
    """Return whether a JSON value is a task of `datassay export`, with annotations."""
    data = read_entry(task, "data")
    if not (isinstance(data, dict) and {ID, GIVEN, DIGEST} <= data.keys()):
        return False
    annotations = task.get("annotations")
    return isinstance(annotations, list) and all(
        isinstance(a, dict) and all(isinstance(item, dict) for item in a.get("result", []))
        for a in annotations
    )


def _read_task(task: dict[str, Any], path: Path) -> Decision | None:
    """Return the decision of a task's latest annotation; None without any."""
    if not task["annotations"]:
        return None
    data = task["data"]
    latest = max(task["annotations"], key=_saved_at)
    controls = {c.get("from_name"): c.get("value", {}) for c in latest.get("result", [])}
    fate = _control_text(controls.get(FATE))
    label = _control_text(controls.get(LABEL))
    if fate not in {"", REMOVE, UNSURE}:
        raise DataError(
            f"{path} must decide {REMOVE} or {UNSURE} as {FATE}; sample {data[ID]} has {fate!r}."
        )
    if not fate and (latest.get("was_cancelled") or not label):
        fate = UNSURE
    kind = fate or (KEEP if label == data[GIVEN] else RELABEL)
    new_label = text_if(kind == RELABEL, label)
    return Decision(data[ID], kind, data[GIVEN], new_label, _saved_at(latest), data.get(SEEN))


def _control_text(value: Any) -> str:
    """Return a form control's value as text: its choice, or its number."""
    value = value or {}
    if "number" in value:
        return label_word((), value["number"])
    return str(next(iter(value.get("choices", [])), ""))


def _saved_at(annotation: dict[str, Any]) -> datetime:
    """Return when an annotation was last saved, UTC."""
    when = datetime.fromisoformat(annotation.get("updated_at") or annotation.get("created_at", ""))
    if when.tzinfo is None:
        return when.replace(tzinfo=UTC)
    return when.astimezone(UTC)
