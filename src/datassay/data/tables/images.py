"""Tables with a column of images, as Hugging Face's datasets have them: their bytes, or a path."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from datassay.data.pictures import Pictures, background_warning, choose_background, image_size
from datassay.data.samples import Column
from datassay.data.source import Source
from datassay.errors import DataError

ASIDE = "the images alone are read"


def image_column(table: pa.Table) -> str | None:
    """Return the name of the first column of encoded images; None if there is none."""
    for field in table.schema:
        kind = field.type
        names = ()
        if pt.is_struct(kind):
            names = {kind.field(i).name for i in range(kind.num_fields)}
        if names == {"bytes", "path"}:
            return field.name
    return None


def source_of_images(table: pa.Table, column: str, read: Callable[[pa.Table], Source]) -> Source:
    """Return a table's source with its images as inputs; `read` reads the other columns."""
    # In place of its image each row has a random number, which tells nothing of the target, and by
    # which the rows that are read are known.
    numbers = np.random.default_rng(0).permutation(len(table))
    column_idx = table.column_names.index(column)
    source = read(table.set_column(column_idx, column, pa.array(numbers)))
    train = source.train
    assert train.rows is not None
    positions = np.argsort(numbers)[train.rows[column].to_numpy()]
    images = table[column].take(pa.array(positions)).to_pylist()
    files = [_find_file(image, row) for image, row in zip(images, positions.tolist(), strict=True)]
    sizes = [image_size(file) for file in files]
    background = choose_background(sizes)
    columns = {c.name: c for c in source.columns if c.read_as in {"target", "ids", "left out"}}
    unused = [c.name for c in source.columns if c.name not in {*columns, column}]
    columns |= {name: Column(name, "left out", note=ASIDE) for name in unused}
    ordered = tuple(columns[c.name] for c in source.columns if c.name != column)
    x = np.zeros((len(files), 0), np.float32)
    return replace(
        source, kind="image", columns=ordered, feature_names=(), preparation=None,
        train=replace(train, x=x, rows=None, texts=None, images=Pictures(files, sizes, background)),
        warnings=source.warnings + background_warning(sizes, background),
    )  # fmt: skip


def _find_file(image: dict[str, bytes | str | None] | None, row: int) -> Path | bytes:
    """Return an image's bytes or its path; raise if the row has neither."""
    content = (image or {}).get("bytes")
    path = (image or {}).get("path")
    if isinstance(content, bytes):
        return content
    if isinstance(path, str):
        return Path(path)
    raise DataError(f"every row must hold an image; row {row}, counted from 0, holds none.")
