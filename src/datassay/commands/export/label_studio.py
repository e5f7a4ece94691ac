"""Label Studio: tasks with our suggestion as a prediction, and the labelling interface for them.

Its export as JSON is read back by `datassay apply`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

import numpy as np
import pyarrow as pa

from datassay.act.review.decisions import REMOVE, UNSURE
from datassay.act.review.label_studio import DIGEST, FATE, GIVEN, ID, LABEL, SEEN
from datassay.commands.export.material import (
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
    scores, samples = material.scores, material.samples
    words = class_words(samples)
    given, suggested = material.given.to_pylist(), scores["suggested_label"].to_pylist()
    wrong, is_issue = scores["wrong_probability"].to_pylist(), scores["is_issue"].to_pylist()
    ids = scores["id"].to_pylist()
    tasks = [
        {
            "data": {
                key: sample,
                ID: ids[row],
                GIVEN: _word(given[row], words),
                "suggested_label": _word(suggested[row], words),
                SEEN: wrong[row],
                DIGEST: material.run.digest,
            },
            "predictions": [{
                "model_version": material.made_by,
                "score": wrong[row] if is_issue[row] else 1 - wrong[row],
                "result": [_result(suggested[row], words)],
            }],
        }
        for row, sample in zip(rows, shown, strict=True)
    ]  # fmt: skip
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


def _word(label: object, words: Mapping[object, str]) -> str:
    """A label as decisions have it: the name of a class, or a number in full."""
    return words[label] if words else repr(label)


def _result(label: object, words: Mapping[object, str]) -> dict[str, Any]:
    """One label as Label Studio has it."""
    kind, value = ("choices", [words[label]]) if words else ("number", label)
    return {"from_name": LABEL, "to_name": SAMPLE, "type": kind, "value": {kind: value}}


def _shown(material: Material, rows: list[int]) -> tuple[str, list[Any], Parts, Path | None]:
    """The key that tasks hold a sample by, the samples, files of images, and their folder."""
    samples = material.samples
    if samples.kind == "image" and (paths := image_paths(samples)) is not None:
        root = _data(material)
        return "image", [_url(paths[row].resolve(), root) for row in rows], {}, root
    if samples.kind == "image":
        names, files = image_files(samples, rows)
        if files:
            root = material.out.resolve()
            return "image", [_url(root / name, root) for name in names], dict(files), root
    if samples.kind == "text" and samples.texts is not None:
        return "text", [str(samples.texts[row]) for row in rows], {}, None
    return "row", _row_texts(samples.used_rows, samples, rows), {}, None


def _data(material: Material) -> Path:
    """The folder that the samples were read from."""
    inputs = material.run.inputs
    where = inputs.data if material.data is None and inputs is not None else material.data
    return Path(str(where)).expanduser().resolve()


def _url(path: Path, folder: Path) -> str:
    """Where Label Studio serves a file, its root one above the folder."""
    return SERVED + quote(path.relative_to(folder.parent).as_posix())


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
    return (
        "<View>\n"
        f'  <{_OBJECTS[key]} name="{SAMPLE}" value="${key}"/>\n'
        f'  <Header value="Given: ${GIVEN}"/>\n'
        f"{label}\n"
        f'  <Choices name="{FATE}" toName="{SAMPLE}" choice="single" showInline="true">\n'
        f"{fates}\n  </Choices>\n</View>\n"
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
