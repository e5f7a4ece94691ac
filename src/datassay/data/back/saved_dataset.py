"""Folders of Hugging Face's datasets given back: the same files, schema and features."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Bool
from pyarrow import ipc

from datassay.data.back.columnar import with_rows
from datassay.data.back.image_folder import files_in
from datassay.data.back.original import hand_on
from datassay.data.files.saved_dataset import STATE, data_files, stored_dataset


def write_saved_dataset(
    source: Path,
    target: Path,
    column: str,
    keep: Bool[np.ndarray, " rows"],
    donor: dict[int, int],
    number: dict[int, float],
) -> None:
    """Write a saved data set without some rows, and with other values in one column of others.

    Args:
        source: the folder that it is in.
        target: the folder to fill.
        column: name of the column.
        keep: which rows stay.
        donor: row → the row whose value it gets.
        number: row → the number it gets.
    """
    everything = np.ones(len(keep), dtype=bool)
    table = with_rows(stored_dataset(source), column, everything, donor, number)
    files, start, whole = data_files(source), 0, hashlib.sha256()
    for file, part in files:
        rows = slice(start, start + part.num_rows)
        start = rows.stop
        kept = table.slice(rows.start, part.num_rows).filter(pa.array(keep[rows]))
        with pa.OSFile(str(target / file.name), "wb") as sink:
            with ipc.new_stream(sink, part.schema) as writer:
                writer.write_table(kept)
        whole.update((target / file.name).read_bytes())
    state = json.loads((source / STATE).read_text(encoding="utf-8"))
    # Whoever caches what was computed of a data set knows it by its fingerprint.
    state["_fingerprint"] = whole.hexdigest()[:16]
    (target / STATE).write_text(json.dumps(state, indent=2), encoding="utf-8")
    made = {file.name for file, _ in files} | {STATE}
    for name in files_in(source):
        if name not in made:
            hand_on(source / name, target / name, link=False)
