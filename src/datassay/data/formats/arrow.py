"""Arrow's own files (Feather, IPC files and streams), checked before they are used."""

from pathlib import Path

import pyarrow as pa
from pyarrow import feather, ipc

from datassay.data.back.original import Change, apply_change
from datassay.data.format import TableFormat
from datassay.data.memory.frames import without_views
from datassay.data.source import check_fits


def read_arrow(path: Path, ids: str | None = None) -> pa.Table:
    """Return the table in a file, row labels of pandas with it."""
    check_fits(2.0 * path.stat().st_size, f"the values in {path}")
    with path.open("rb") as file:  # by a name of any bytes
        if _is_file(path):
            reader = ipc.open_file(file)
        else:
            reader = ipc.open_stream(file)
        table = reader.read_all()
    table.validate(full=True)  # offsets of a damaged file would point anywhere
    return table


def _is_file(path: Path) -> bool:
    """Return whether a file has Arrow's file format, and not its stream format."""
    with path.open("rb") as file:
        return file.read(6) == b"ARROW1"


def _write(path: Path, target: Path, change: Change) -> None:
    """Write the stored table with other labels and rows removed, in the same schema."""
    stored = read_arrow(path)
    table = apply_change(without_views(stored), change)
    if "_view" in str(stored.schema.types):
        table = table.cast(stored.schema)
    if path.suffix.lower() == ".feather":
        feather.write_feather(table, str(target))
        return
    if _is_file(path):
        open_writer = ipc.new_file
    else:
        open_writer = ipc.new_stream
    with pa.OSFile(str(target), "wb") as sink, open_writer(sink, table.schema) as writer:
        writer.write_table(table)


FORMAT = TableFormat(
    name="Arrow", suffixes=(".feather", ".arrow"), read=read_arrow, give_back=_write
)
