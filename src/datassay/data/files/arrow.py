"""Arrow's own files (Feather, IPC files and streams) as tables, checked before they are used."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyarrow import ipc

from datassay.data.source import check_fits


def read_arrow(path: Path) -> pa.Table:
    """The table in a file.

    Args:
        path: .feather (version 2) or .arrow.

    Returns:
        The table, row labels of pandas with it.

    Raises:
        DataError: it would not fit into memory.
    """
    check_fits(2.0 * path.stat().st_size, f"the values in {path}")
    with path.open("rb") as file:
        is_file = file.read(6) == b"ARROW1"
    with pa.OSFile(str(path)) as file:
        reader = ipc.open_file(file) if is_file else ipc.open_stream(file)
        table = reader.read_all()
    table.validate(full=True)  # offsets of a damaged file would point anywhere
    return table
