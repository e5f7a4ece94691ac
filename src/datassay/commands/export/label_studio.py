"""Label Studio: tasks with our suggestion as a prediction, and the labelling interface for them.

Its export as JSON is read back by `datassay apply`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

import numpy as np
import pyarrow as pa

from datassay.act.review.decisions import REMOVE, UNSURE, label_word
from datassay.act.review.label_studio import DIGEST, FATE, GIVEN, ID, INPUTS, LABEL, SEEN
from datassay.commands.export.material import (
    Export,
    Exported,
    Material,
    Parts,
    class_words,
    image_files,
    image_paths,
    single_labels,
)
from datassay.errors import DataError, SettingError
from datassay.report.tables import standard_json

TASKS, CONFIG = "tasks.json", "config.xml"
SAMPLE = "sample"
SERVED = "/data/local-files/?d="


def export(material: Material) -> Exported:
    """Tasks, most suspect first, the interface, and images where the data hold arrays."""
    single_labels(material, "label-studio")
    rows = _chosen(material)
    key, shown, files, root = _shown(material, rows)
    samples = material.samples
    told, suggested = _told(material), _suggested(material)
    tasks = [
        {
            "data": {key: sample, **told[row], **_about(material)},
            "predictions": [_prediction(material, suggested[row], told[row])],
        }
        for row, sample in zip(rows, shown, strict=True)
    ]
    config = _config(key, samples.class_names)
    parts: Parts = {TASKS: standard_json(tasks), CONFIG: config}
    return Exported({**parts, **files}, _opening(root))


def _chosen(material: Material) -> list[int]:
    """Rows of the tasks, the most suspect first."""
    score = material.scores["label_issue_score"].to_numpy()
    order = np.argsort(-score, kind="stable")
    top = material.top
    if top is None:
        top = int(np.sum(material.scores["is_issue"].to_numpy(zero_copy_only=False)))
        if not top:
            raise DataError(
                f"{material.run.folder} suspects no label, so that there are no tasks. Give --top, "
                "how many of the most suspect samples to export."
            )
    if not 1 <= top <= len(score):
        raise SettingError(f"top must lie in 1 to {len(score):,}, the samples; got {top}.")
    return order[:top].tolist()


def _told(material: Material) -> list[dict[str, Any]]:
    """What each task says of its sample."""
    scores, samples = material.scores, material.samples
    wrong, is_issue = scores["wrong_probability"].to_pylist(), scores["is_issue"].to_pylist()
    return [
        {
            ID: one,
            GIVEN: label_word(samples.class_names, samples.y[row]),
            SEEN: wrong[row],
            "is_issue": is_issue[row],
        }
        for row, one in enumerate(scores["id"].to_pylist())
    ]


def _suggested(material: Material) -> list[Any]:
    """Names of classes, or numbers."""
    words = class_words(material.samples)
    labels = material.scores["suggested_label"].to_pylist()
    return [words[label] for label in labels] if words else labels


def _about(material: Material) -> dict[str, Any]:
    """Which data the tasks are about, and how they were read; where they are is left out."""
    origin = material.run.summary.get("origin") or {}
    inputs = {n: v for n, v in origin.get("inputs", {}).items() if v and not n.startswith("data")}
    return {DIGEST: material.run.digest, INPUTS: inputs}


def _prediction(material: Material, label: Any, told: dict[str, Any]) -> dict[str, Any]:
    """The suggested label with the probability that it is right."""
    kind = "choices" if material.samples.is_classification else "number"
    value = {kind: [label] if kind == "choices" else label}
    return {
        "model_version": material.made_by,
        "score": told[SEEN] if told["is_issue"] else 1 - told[SEEN],
        "result": [{"from_name": LABEL, "to_name": SAMPLE, "type": kind, "value": value}],
    }


def _shown(material: Material, rows: list[int]) -> tuple[str, list[Any], Parts, Path | None]:
    """The key that tasks hold a sample by, the samples, files of images, and their folder."""
    samples = material.samples
    if samples.kind == "image" and (paths := image_paths(samples)) is not None:
        root = Path(os.path.abspath(_data(material)))  # links stay as they are named
        return "image", [_url(paths[row], root) for row in rows], {}, root
    if samples.kind == "image":
        names, files = image_files(samples, rows)
        if files:
            root = Path(os.path.abspath(material.out))
            return "image", [_url(root / name, root) for name in names], dict(files), root
    if samples.kind == "text" and samples.texts is not None:
        return "text", [str(samples.texts[row]) for row in rows], {}, None
    return "row", _row_texts(samples.used_rows, samples, rows), {}, None


def _data(material: Material) -> Path:
    """The folder that the samples were read from."""
    inputs = material.run.inputs
    where = inputs.data if material.data is None and inputs is not None else material.data
    return Path(str(where)).expanduser()


def _url(path: Path, folder: Path) -> str:
    """Where Label Studio serves a file, its root one above the folder."""
    place = Path(os.path.abspath(path)).relative_to(folder.parent)
    return SERVED + quote(place.as_posix(), errors="surrogateescape")


def _row_texts(table: pa.Table | None, samples: Any, rows: list[int]) -> list[dict[str, str]]:
    if table is not None:
        taken = table.take(pa.array(rows)).to_pylist()
        return [{n: "" if v is None else str(v) for n, v in row.items()} for row in taken]
    flat = samples.x.reshape(len(samples), -1)
    names = samples.feature_names or [f"x{j}" for j in range(flat.shape[1])]
    return [dict(zip(names, (f"{v:.6g}" for v in flat[row]), strict=True)) for row in rows]


_OBJECTS = {"image": "Image", "text": "Text", "row": "Table"}


def _config(key: str, names: Sequence[str]) -> str:
    """The labelling interface; labels are texts in it, whatever they hold."""
    choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in names)
    one = f'name="{LABEL}" toName="{SAMPLE}"'
    label = f'  <Choices {one} choice="single" showInline="true">\n{choices}\n  </Choices>'
    if not names:
        label = f'  <Number {one} step="any"/>'
    fates = "\n".join(f'    <Choice value="{fate}"/>' for fate in (REMOVE, UNSURE))
    # Above the sample, which may be higher than the screen.
    return (
        f'<View>\n  <Header value="Given: ${GIVEN}"/>\n{label}\n'
        f'  <Choices name="{FATE}" toName="{SAMPLE}" choice="single" showInline="true">\n'
        f"{fates}\n  </Choices>\n"
        f'  <{_OBJECTS[key]} name="{SAMPLE}" value="${key}"/>\n</View>\n'
    )


def _opening(root: Path | None) -> str:
    steps = (
        f"Make a project, paste {CONFIG} under Settings > Labeling Interface > Code, import "
        f"{TASKS}. Export it as JSON when done and give that file to datassay apply."
    )
    if root is None:
        return steps
    return (
        "Start Label Studio with LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true and "
        f"LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT={root.parent}; add {root} to the project as local "
        f"storage. {steps}"
    )


EXPORT = Export(
    "label-studio",
    "Tasks for Label Studio with the suggested labels; its export goes back with datassay apply.",
    export,
)
