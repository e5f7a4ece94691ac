"""Files of one JSON object a line given back: only the value of a label changes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from datassay.errors import DataError

_SPACE = " \t\r\n"
_DECODER = json.JSONDecoder()


class JsonLines:
    """The lines of a file.

    Args:
        path: .jsonl or .ndjson.
        n_rows: that were read of it.

    Raises:
        DataError: other rows are found here than were read.
    """

    def __init__(self, path: Path, n_rows: int):
        self._lines = path.read_bytes().splitlines(keepends=True)
        self._rows = [i for i, line in enumerate(self._lines) if line.strip()]
        if len(self._rows) != n_rows:
            raise DataError(
                f"{path} must hold one object a line to be given back; {n_rows:,} were read of "
                f"{len(self._rows):,} lines. Write each object in a line of its own."
            )

    def word(self, row: int, key: str) -> bytes:
        """The value of a key as it is written."""
        text = self._lines[self._rows[row]].decode()
        start, end = _span(text, key)
        return text[start:end].encode()

    def number(self, value: float) -> bytes:
        """A number as JSON has it."""
        return f"{value:.15g}".encode()

    def write(
        self, path: Path, keep: Bool[np.ndarray, " rows"], key: str, words: dict[int, bytes]
    ) -> None:
        """Write the lines without some rows, and with other values of one key in others.

        Args:
            path: of the new file.
            keep: which rows stay.
            key: whose value changes.
            words: row → its new value.
        """
        lines: list[bytes] = list(self._lines)
        for row, word in words.items():
            text = lines[self._rows[row]].decode()
            start, end = _span(text, key)
            lines[self._rows[row]] = text[:start].encode() + word + text[end:].encode()
        for row in np.flatnonzero(~keep):
            lines[self._rows[row]] = b""
        path.write_bytes(b"".join(lines))


def _span(line: str, key: str) -> tuple[int, int]:
    """Where the value of a key of the outermost object starts and ends."""
    place = line.index("{") + 1
    while True:
        name, place = _DECODER.raw_decode(line, _past(line, place, _SPACE + ","))
        start = _past(line, place, _SPACE + ":")
        _, place = _DECODER.raw_decode(line, start)
        if name == key:
            return start, place


def _past(line: str, place: int, passed: str) -> int:
    while line[place] in passed:
        place += 1
    return place
