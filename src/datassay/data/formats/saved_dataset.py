"""Folders that `save_to_disk` of Hugging Face's datasets wrote, as tables; without that library."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from datassay.data.back.original import Change, apply_change, files_in, hand_on
from datassay.data.format import TableFormat
from datassay.data.formats.arrow import read_arrow
from datassay.data.memory.frames import named_labels
from datassay.data.source import reading
from datassay.errors import DataError

STATE = "state.json"
INFO = "dataset_info.json"
SPLITS = "dataset_dict.json"


def _read(folder: Path, ids: str | None) -> pa.Table:
    """Return the table of a saved Hugging Face data set, with class names instead of codes."""
    table = pa.concat_tables([table for _, table in _read_data_files(folder)])
    features: dict[str, Any] = {}
    if (folder / INFO).is_file():
        with reading(folder / INFO):
            text = (folder / INFO).read_text(encoding="utf-8")
            features = json.loads(text).get("features") or {}
    for name, feature in features.items():
        is_label = isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
        if not is_label or name not in table.column_names:
            continue
        with reading(folder / INFO):
            words = named_labels(table[name], feature["names"])
        table = table.set_column(table.column_names.index(name), name, words)
    return table


def _read_data_files(folder: Path) -> list[tuple[Path, pa.Table]]:
    """Return (file, its table) for each Arrow file of a saved data set, in order."""
    if (folder / SPLITS).is_file():
        with reading(folder / SPLITS):
            splits = json.loads((folder / SPLITS).read_text(encoding="utf-8"))["splits"]
        raise DataError(
            f"{folder} must be one data set; it holds {', '.join(map(str, splits))}. Name one of "
            f"them, such as {folder / str(splits[0])}."
        )
    with reading(folder / STATE):
        state = json.loads((folder / STATE).read_text(encoding="utf-8"))
        files = [folder / Path(entry["filename"]).name for entry in state.get("_data_files", ())]
        if not files or state.get("_indices_data_files"):
            raise ValueError("it names no files of data, or rows that are chosen by indices")
    results = []
    for file in files:
        with reading(file):
            results.append((file, read_arrow(file)))
    return results


def _write(source: Path, target: Path, change: Change) -> None:
    """Write the rows kept, with other labels, to files of the same names and schema."""
    keep = change.keep
    files = _read_data_files(source)
    start = 0
    digest = hashlib.sha256()
    table = pa.concat_tables([rows_of_file for _, rows_of_file in files])
    table = apply_change(table, replace(change, keep=np.ones_like(keep)))
    for file, rows_of_file in files:
        rows = slice(start, start + rows_of_file.num_rows)
        start = rows.stop
        remaining = table.slice(rows.start, rows_of_file.num_rows).filter(pa.array(keep[rows]))
        with pa.OSFile(str(target / file.name), "wb") as sink:
            with ipc.new_stream(sink, rows_of_file.schema) as writer:
                writer.write_table(remaining)
        digest.update((target / file.name).read_bytes())
    state = json.loads((source / STATE).read_text(encoding="utf-8"))
    # By it a cache of results computed from the data set knows that these are other data.
    state["_fingerprint"] = digest.hexdigest()[:16]
    (target / STATE).write_text(json.dumps(state, indent=2), encoding="utf-8")
    written = {file.name for file, _ in files} | {STATE}
    for name in files_in(source):
        if name not in written:
            hand_on(source / name, target / name, may_link=False)


FORMAT = TableFormat(
    name="saved datasets",
    holds="what save_to_disk of datasets wrote",
    is_folder=lambda folder: any((folder / name).is_file() for name in (STATE, SPLITS)),
    read=_read,
    give_back=_write,
)
