"""Files of one JSON object a line as Arrow tables."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.json as json

from datassay.data.source import check_fits

_BLOCK = 2**20


def read_json_lines(path: Path) -> pa.Table:
    """The table in a file; a key is a column, and what a line does not have is missing.

    Args:
        path: .jsonl or .ndjson.

    Returns:
        The table.

    Raises:
        DataError: it would not fit into memory.
    """
    check_fits(2.0 * path.stat().st_size, f"the text in {path}")
    return _parsed(path)


def _parsed(path: Path) -> pa.Table:
    size, block = path.stat().st_size, _BLOCK
    while True:
        try:
            return json.read_json(path, read_options=json.ReadOptions(block_size=block))
        except pa.ArrowInvalid as error:  # a line longer than a block
            if "straddling" not in str(error) or block > size:
                raise
            block = min(16 * block, 2**31 - 1)
