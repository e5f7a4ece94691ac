"""Label Studio: tasks with our suggestions as predictions, and the labelling interface for them.

Its export as JSON is read back by `datassay apply`.
"""

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
    OF_LABELS,
    Export,
    Exported,
    Material,
    Parts,
    image_files,
    image_paths,
    plain_columns,
    single_labels,
)
from datassay.errors import DataError, SettingError
from datassay.optional import coalesce
from datassay.report.drawing import shown_texts
from datassay.report.tables import labels, standard_json

TASKS = "tasks.json"
CONFIG = "config.xml"
SAMPLE = "sample"
SERVED = "/data/local-files/?d="


def export(material: Material) -> Exported:
    """Return tasks, most suspect first, the interface, and images where the data hold arrays."""
    single_labels(material, "label-studio")
    rows = _choose_rows(material)
    key, contents, files, root = _show_samples(material, rows)
    samples = material.samples
    origin = material.run.summary.get("origin") or {}
    inputs = {n: v for n, v in origin.get("inputs", {}).items() if v and not n.startswith("data")}
    class_labels = labels(samples, np.arange(samples.n_classes)).to_pylist()  # as users gave them
    name_of_label = dict(zip(class_labels, samples.class_names, strict=True))
    tasks = []
    for row, sample in zip(rows, contents, strict=True):
        score = {name: material.scores[name][row].as_py() for name in ("id", *OF_LABELS)}
        p_wrong = score["wrong_probability"]
        is_issue = score["is_issue"]
        label = score["suggested_label"]
        is_other = is_issue
        if name_of_label:
            is_other = label != class_labels[samples.y[row]]
            label = name_of_label[label]
        kind = "number"
        if samples.is_classification:
            kind = "choices"
        value = {kind: [label] if kind == "choices" else label}
        # Which sample, and which data it is of and how they were read; not where they are.
        fields = {
            ID: score["id"],
            GIVEN: label_word(samples.class_names, samples.y[row]),
            SEEN: p_wrong,
            "is_issue": is_issue,
            DIGEST: material.run.digest,
            INPUTS: inputs,
        }
        prediction = {
            "model_version": material.made_by,
            "score": p_wrong if is_other else 1 - p_wrong,  # that the suggested label is right
            "result": [{"from_name": LABEL, "to_name": SAMPLE, "type": kind, "value": value}],
        }
        tasks.append({"data": {key: sample, **fields}, "predictions": [prediction]})
    parts: Parts = {TASKS: standard_json(tasks), CONFIG: _make_interface(key, samples.class_names)}
    return Exported({**parts, **files}, _describe_opening(root))


def _choose_rows(material: Material) -> list[int]:
    """Return rows of scores to make tasks of, most suspect first; raise if there are none."""
    score = material.scores["label_issue_score"].to_numpy()
    top = material.top
    order = np.argsort(-score, kind="stable")
    if top is None:
        lists = (material.scores[name] for name in ("is_issue", "worth_a_look"))
        is_listed = np.logical_or(*(flags.to_numpy(zero_copy_only=False) for flags in lists))
        if not is_listed.any():
            raise DataError(
                f"{material.run.folder} has no label that is worth a look, so that there are no "
                "tasks. Give --top, how many of the most suspect samples to export."
            )
        return order[is_listed[order]].tolist()
    if not 1 <= top <= len(score):
        raise SettingError(f"top must lie in 1 to {len(score):,}, the samples; got {top}.")
    return order[:top].tolist()


def _show_samples(material: Material, rows: list[int]) -> tuple[str, list[Any], Parts, Path | None]:
    """Return the key of samples in tasks, the samples, files of images, and their folder."""
    samples = material.samples
    paths = image_paths(samples) if samples.kind == "image" else None
    if paths is not None:
        inputs = material.run.inputs  # links stay as they are named
        if material.data is None and inputs is not None:
            folder = inputs.data
        else:
            folder = material.data
        root = Path(os.path.abspath(Path(str(folder)).expanduser()))
        return "image", [_url(paths[row], root) for row in rows], {}, root
    if samples.kind == "image":
        names, files = image_files(samples, rows)
        if files:
            root = Path(os.path.abspath(material.out))
            return "image", [_url(root / name, root) for name in names], dict(files), root
    texts = shown_texts(samples)
    if texts is not None:
        return "text", [str(texts[row]) for row in rows], {}, None
    table = samples.used_rows
    if table is not None:
        table_rows = table.take(pa.array(rows)).to_pylist()
        words = [{n: str(coalesce(v, "")) for n, v in row.items()} for row in table_rows]
        return "row", words, {}, None
    columns = plain_columns(samples).items()
    return "row", [{n: f"{values[row]:.6g}" for n, values in columns} for row in rows], {}, None


def _url(path: Path, folder: Path) -> str:
    """Return where Label Studio serves a file, its root one above the folder."""
    relative = Path(os.path.abspath(path)).relative_to(folder.parent)
    return SERVED + quote(relative.as_posix(), errors="surrogateescape")


_OBJECTS = {"image": "Image", "text": "Text", "row": "Table"}


def _make_interface(key: str, names: Sequence[str]) -> str:
    """Return Label Studio's labelling interface as XML: sample, given label, choices."""
    choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in names)
    attributes = f'name="{LABEL}" toName="{SAMPLE}"'
    label = f'  <Choices {attributes} choice="single" showInline="true">\n{choices}\n  </Choices>'
    if not names:
        label = f'  <Number {attributes} step="any"/>'
    fates = "\n".join(f'    <Choice value="{fate}"/>' for fate in (REMOVE, UNSURE))
    # Above the sample, which may be higher than the screen.
    return (
        f'<View>\n  <Header value="Given: ${GIVEN}"/>\n{label}\n'
        f'  <Choices name="{FATE}" toName="{SAMPLE}" choice="single" showInline="true">\n'
        f"{fates}\n  </Choices>\n"
        f'  <{_OBJECTS[key]} name="{SAMPLE}" value="${key}"/>\n</View>\n'
    )


def _describe_opening(root: Path | None) -> str:
    """Return the steps by which a user opens the tasks; root: folder of images, if any."""
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


HELP = "Tasks for Label Studio with the suggested labels; its export goes back with datassay apply."
EXPORT = Export("label-studio", HELP, export)
