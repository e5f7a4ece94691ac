"""Files of one JSON object a line; given back, only the value of a label changes."""

import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json

from datassay.data.back.original import Change, rewrite_text
from datassay.data.format import TableFormat
from datassay.data.memory.frames import plain_column
from datassay.data.source import check_fits, parse_in_blocks
from datassay.data.tables.numerals import numeral
from datassay.errors import DataError

_SPACE = " \t\r\n"
_DECODER = json.JSONDecoder()


def _read(path: Path, ids: str | None) -> pa.Table:
    """Return the table in a file of JSON lines: a column per key, null where it is absent."""
    size = path.stat().st_size
    check_fits(2.0 * size, f"the text in {path}")

    def parse(block: int) -> pa.Table:
        options = pyarrow.json.ReadOptions(block_size=block)
        return pyarrow.json.read_json(path, read_options=options)

    try:
        return parse_in_blocks(parse, size)
    except pa.ArrowInvalid as error:  # strings among numbers, such as "?"
        objects = _read_objects(path)
        if "changed from" not in str(error) or not all(isinstance(o, dict) for o in objects):
            raise
    names = dict.fromkeys(name for record in objects for name in record)
    columns = [plain_column([record.get(n) for record in objects], n) for n in names]
    return pa.table(columns, names=list(names))


def _read_objects(path: Path) -> list[Any]:
    """Return the value of each line; none where some line holds no JSON."""
    try:
        return [json.loads(line) for line in path.read_bytes().splitlines() if line.strip()]
    except ValueError:
        return []


def _write(path: Path, target: Path, change: Change) -> None:
    """Write the lines with rows removed and labels replaced, all other bytes unchanged."""
    lines = path.read_bytes().splitlines(keepends=True)
    ends = list(itertools.accumulate(map(len, lines)))
    rows = [(end - len(line), end) for line, end in zip(lines, ends, strict=True) if line.strip()]
    if len(rows) != len(change.keep):
        raise DataError(
            f"{path} must hold one object per line to be given back; {len(change.keep):,} were "
            f"read of {len(rows):,} lines. Write each object in a line of its own."
        )
    text = b"".join(lines)

    def cell(row: int) -> tuple[int, int]:
        """Return where a row's value of the changed column starts and ends, in bytes."""
        start, end = rows[row]
        line = text[start:end].decode()
        value_start, value_end = _find_value(line, change.column)
        cell_start = start + len(line[:value_start].encode())
        return cell_start, cell_start + len(line[value_start:value_end].encode())

    def number(_: bytes, target: float | str) -> bytes:
        """Return a new target as it is written."""
        text_of_target = json.dumps(target) if isinstance(target, str) else numeral(target)
        return text_of_target.encode()

    target.write_bytes(rewrite_text(text, rows, cell, number, change))


def _find_value(line: str, key: str) -> tuple[int, int]:
    """Return start and end of a key's value in a line, in characters."""
    position = line.index("{") + 1

    def skip(index: int, characters: str) -> int:
        while line[index] in characters:
            index += 1
        return index

    while True:
        name, position = _DECODER.raw_decode(line, skip(position, _SPACE + ","))
        start = skip(position, _SPACE + ":")
        _, position = _DECODER.raw_decode(line, start)
        if name == key:
            return start, position


FORMAT = TableFormat(
    name="JSON lines", suffixes=(".jsonl", ".ndjson"), read=_read, give_back=_write
)
