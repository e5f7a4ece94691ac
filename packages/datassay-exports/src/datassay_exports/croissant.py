"""Croissant: the tables of a run described in JSON-LD, as MLCommons' format 1.1 has it."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from datassay.commands.export import Export, Exported, Material, Parts
from datassay.data import reading
from datassay.report import sha256, standard_json
from datassay.results import meaning_of

FILE, SCORES = "croissant.json", "scores.parquet"
TABLES = {
    SCORES: "Every training sample's scores.",
    "attribution.parquet": "The largest effects of training samples on each query.",
}
# The context that the format prescribes: its own names are its namespace's, all else schema.org's.
_OWN = (
    *("arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract", "field"),
    *("fileProperty", "fileObject", "fileSet", "format", "includes", "isArray", "isLiveDataset"),
    *("jsonPath", "key", "md5", "parentField", "path", "recordSet", "references", "regex"),
    *("repeated", "replace", "samplingRate", "separator", "source", "subField", "transform"),
)
CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    "description": {"@container": "@language"},
    **{name: f"cr:{name}" for name in _OWN},
}
_TYPES: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_boolean, "sc:Boolean"),
    (pa.types.is_integer, "sc:Integer"),
    (pa.types.is_floating, "sc:Float"),
)


def export(material: Material) -> Exported:
    """Export the run's tables as they are, with a file that describes them."""
    folder = material.run.folder
    tables = {name: text for name, text in TABLES.items() if (folder / name).is_file()}
    description = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": f"Scores of {material.name}",
        "description": (
            f"What {material.made_by} found out about the training samples of {material.name}. "
            "Ids are those of the data; units and signs stand with the fields."
        ),
        "version": "1.0.0",
        "dateCreated": datetime.now(UTC).date().isoformat(),
        "isBasedOn": {"@type": "sc:Dataset", "name": material.name,
                      "identifier": material.run.digest},
        "distribution": [_file(folder / name, text) for name, text in tables.items()],
        "recordSet": [_record_set(folder / name, text) for name, text in tables.items()],
    }  # fmt: skip
    copies = {name: partial(shutil.copyfile, folder / name) for name in tables}
    parts: Parts = {FILE: standard_json(description), **copies}
    return Exported(parts, f"pip install mlcroissant, then: mlcroissant validate --jsonld "
                    f"{material.out / FILE}")  # fmt: skip


def _file(path: Path, text: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": path.name,
        "name": path.name,
        "description": text,
        "contentUrl": path.name,
        "contentSize": f"{path.stat().st_size} B",
        "encodingFormat": "application/x-parquet",
        "sha256": sha256(path),
    }


def _record_set(path: Path, text: str) -> dict[str, Any]:
    with reading(path):
        schema = pq.read_schema(path)
    fields = [_field(path, column) for column in schema]
    key = {"key": {"@id": f"{path.stem}/id"}} if path.name == SCORES else {}
    return {
        "@type": "cr:RecordSet",
        "@id": path.stem,
        "name": path.stem,
        "description": text,
        **key,
        "field": fields,
    }


def _field(path: Path, column: pa.Field) -> dict[str, Any]:
    meaning = meaning_of(column)
    parts = [meaning.meaning, meaning.unit and f"unit: {meaning.unit}", meaning.sign]
    value_type = column.type.value_type if pa.types.is_list(column.type) else column.type
    kind = next((name for is_it, name in _TYPES if is_it(value_type)), "sc:Text")
    repeated = {"isArray": True, "arrayShape": "-1"} if value_type is not column.type else {}
    return {
        "@type": "cr:Field",
        "@id": f"{path.stem}/{column.name}",
        "name": column.name,
        "description": "; ".join(text for text in parts if text),
        "dataType": kind,
        **repeated,
        "source": {"fileObject": {"@id": path.name}, "extract": {"column": column.name}},
    }


EXPORT = Export("croissant", "Croissant, MLCommons' description of the tables in JSON-LD.", export)
