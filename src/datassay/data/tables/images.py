"""Tables with a column of images, as Hugging Face's datasets have them: their bytes, or a path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from datassay.data.pictures import Pictures, choose_ground, ground_warning, image_size
from datassay.data.samples import Column
from datassay.data.source import Source
from datassay.errors import DataError

ASIDE = "the images alone are read"


def image_column(table: pa.Table) -> str | None:
    """Return the name of the first column of images; None: there is none."""
    for field in table.schema:
        kind = field.type
        names = {kind.field(i).name for i in range(kind.num_fields)} if pt.is_struct(kind) else ()
        if names == {"bytes", "path"}:
            return field.name
    return None


def source_of_images(table: pa.Table, column: str, read: Callable[[pa.Table], Source]) -> Source:
    """Return the samples of a table whose inputs are its images; `read` is for its other roles."""
    rows = np.random.default_rng(0).permutation(len(table))  # a number each, that tells nothing
    place = table.column_names.index(column)
    source = read(table.set_column(place, column, pa.array(rows)))
    part = source.train
    assert part.rows is not None
    positions = np.argsort(rows)[part.rows[column].to_numpy()]
    images = table[column].take(pa.array(positions)).to_pylist()
    files = [_file(image, row) for image, row in zip(images, positions.tolist(), strict=True)]
    sizes = [image_size(file) for file in files]
    ground = choose_ground(sizes)
    known = {c.name: c for c in source.columns if c.read_as in {"target", "ids", "left out"}}
    out = [c.name for c in source.columns if c.name not in {*known, column}]
    known |= {name: Column(name, "left out", note=ASIDE) for name in out}
    columns = tuple(known[c.name] for c in source.columns if c.name != column)
    x = np.zeros((len(files), 0), np.float32)
    return replace(
        source, kind="image", columns=columns, feature_names=(), preparation=None,
        train=replace(part, x=x, rows=None, texts=None, images=Pictures(files, sizes, ground)),
        warnings=source.warnings + ground_warning(sizes, ground),
    )  # fmt: skip


def _file(image: dict[str, bytes | str | None] | None, row: int) -> Path | bytes:
    content, path = (image or {}).get("bytes"), (image or {}).get("path")
    if isinstance(content, bytes):
        return content
    if isinstance(path, str):
        return Path(path)
    raise DataError(f"every row must hold an image; row {row}, counted from 0, holds none.")
