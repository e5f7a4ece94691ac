"""Tables with a column of images: Hugging Face's, of bytes or a path, or of names of files."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from datassay.data.pictures import (
    SUFFIXES,
    Pictures,
    background_warning,
    choose_background,
    image_size,
)
from datassay.data.samples import Column
from datassay.data.source import Source
from datassay.data.tables.numeric import is_id_name
from datassay.data.tables.read import Choices
from datassay.data.tables.roles import NOTE, TARGETS, column_names
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


def with_named_images(table: pa.Table, name: str, choices: Choices) -> pa.Table:
    """Return the table with the images that its one input names; a note where it has others."""
    names = column_names(table, name)
    targets = {choices.target, *choices.targets(names)}
    if choices.target is None:
        targets = {n for n in names if n.strip().casefold() in TARGETS}
    asides = targets | choices.asides | {*choices.drop}
    inputs = [n for n in names if n not in asides]
    inputs = [n for n in inputs if n != choices.ids and not is_id_name(n)] or inputs
    columns = [n for n in inputs if _names_images(table[n])]
    if not columns:
        return table
    # From the folder of the table, else the current one; what is not there is refused later.
    paths = [Path(word) for word in table[columns[0]].to_pylist()]
    files = [p if (p := Path(name).parent / path).exists() else path for path in paths]
    if len(inputs) == 1:
        images = [{"bytes": None, "path": str(path)} for path in files]
        kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
        return table.append_column(f"{columns[0]} image", pa.array(images, kind))
    if not files[0].exists():
        return table
    metadata = dict(table.schema.metadata or {})
    note = f"{columns[0]!r} names images, which are not read beside other columns: drop those."
    metadata[NOTE] = b" ".join(filter(None, (metadata.get(NOTE), note.encode())))
    return table.replace_schema_metadata(metadata)


def _names_images(values: pa.ChunkedArray) -> bool:
    """Return whether all values of a column end as names of image files do."""
    is_string = pt.is_string(values.type) or pt.is_large_string(values.type)
    if not is_string or values.null_count or not len(values):
        return False
    with suppress(UnicodeDecodeError):
        return all(word.as_py().lower().endswith(tuple(SUFFIXES)) for word in values)
    return False


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
        if not Path(path).exists():
            raise DataError(
                f"every row must name an image; row {row}, counted from 0, names {path!r}, which "
                "is not there. Name it from the folder of the table, or from the current one."
            )
        return Path(path)
    raise DataError(f"every row must hold an image; row {row}, counted from 0, holds none.")
