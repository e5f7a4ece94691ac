"""FiftyOne: images with labels and scores, and a short script that shows them."""

import os
from typing import Any

import pyarrow as pa

from datassay.commands.export import (
    Export,
    Exported,
    Material,
    Parts,
    image_files,
    image_paths,
    single_labels,
)
from datassay.errors import DataError
from datassay.report import standard_json

FILE, SCRIPT = "fiftyone.json", "open_fiftyone.py"
TEXT = '''"""Show the images with their scores in FiftyOne; pip install fiftyone."""

import json
from pathlib import Path

import fiftyone as fo

here = Path(__file__).resolve().parent
rows = json.loads((here / "fiftyone.json").read_text(encoding="utf-8"))


def sample(row):
    labels = {name: fo.KIND(**row.pop(name)) for name in ("ground_truth", "suggested")}
    return fo.Sample(str(here / row.pop("filepath")), **labels, **row)


dataset = fo.Dataset()
dataset.add_samples(map(sample, rows))
fo.launch_app(dataset).wait()
'''
LABELS = ("id", "label", "class_name", "suggested_label")


def export(material: Material) -> Exported:
    """Export a row per image: file, both labels, scores; images of arrays are written to files."""
    single_labels(material, "fiftyone")
    samples = material.samples
    files: Parts = {}
    if samples.kind != "image":
        raise DataError(
            f"fiftyone must have images; {material.name} holds none. Export to spotlight or "
            "embedding-atlas."
        )
    if (paths := image_paths(samples)) is not None:
        names = [os.path.abspath(path) for path in paths]
    else:
        names, written = image_files(samples, range(len(samples)))
        files.update(written)
    scores = material.scores
    are_classes = "class_name" in scores.column_names
    rows = [
        _row(name, values, are_classes)
        for name, values in zip(names, _without_lists(scores).to_pylist(), strict=True)
    ]
    script = TEXT.replace("KIND", "Classification" if are_classes else "Regression")
    parts: Parts = {FILE: standard_json(rows), SCRIPT: script, **files}
    return Exported(parts, f"pip install fiftyone, then: python {material.out / SCRIPT}")


def _without_lists(scores: pa.Table) -> pa.Table:
    """Return the scores without lists, which FiftyOne takes for vectors."""
    names = [f.name for f in scores.schema if not pa.types.is_list(f.type)]
    return scores.select(names)


def _row(name: str, values: dict[str, Any], are_classes: bool) -> dict[str, Any]:
    """Return one sample: file, labels in FiftyOne's classes, scores as numbers."""
    wrong_probability = values["wrong_probability"]
    confidence = wrong_probability if values["is_issue"] else 1 - wrong_probability
    label = values["class_name" if are_classes else "label"]
    key, convert = ("label", str) if are_classes else ("value", float)
    return {
        "filepath": name,
        "sample_id": str(values["id"]),
        "ground_truth": {key: convert(label)},
        "suggested": {key: convert(values["suggested_label"]), "confidence": confidence},
        **{k: v for k, v in values.items() if k not in LABELS and v is not None},
    }


EXPORT = Export("fiftyone", "FiftyOne, images with labels and scores.", export)
