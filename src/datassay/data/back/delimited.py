"""CSV and TSV given back byte by byte: only the cell of a label changes, only removed rows go."""

from __future__ import annotations

import codecs
import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from datassay.data.files.plain_text import read_text
from datassay.errors import DataError

_WIDE = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class DelimitedText:
    """The bytes of a text file, and where its rows are.

    Args:
        path: .csv or .tsv, gzipped or not, as `read_delimited` reads it.
        n_rows: that were read of it.

    Raises:
        DataError: other rows are found here than were read.
    """

    def __init__(self, path: Path, n_rows: int):
        self._is_zipped = path.suffix.lower() == ".gz"
        raw = gzip.decompress(path.read_bytes()) if self._is_zipped else path.read_bytes()
        self._wide = _WIDE.get(raw[:2], "")  # separators of UTF-16 are no single bytes
        text = raw[2:].decode(self._wide).encode() if self._wide else raw
        self._text, told = text, read_text(path)
        self._decimal, self._separator = told.decimal, told.separator.encode()
        mark = re.escape(self._separator)
        quoted = rb'"[^"]*+(?:""[^"]*+)*+"'
        self._field = re.compile(rb"(?:%b)?+[^%b\r\n]*+" % (quoted, mark))
        field = self._field.pattern
        self._row = re.compile(rb"%b(?:%b%b)*+(?:\r\n|\n|\r|\Z)" % (field, mark, field))
        self._start = len(codecs.BOM_UTF8) if text.startswith(codecs.BOM_UTF8) else 0
        _, *self._rows = self._spans()
        if len(self._rows) != n_rows:
            raise DataError(
                f"{path} must be given back row by row; {n_rows:,} rows were read, "
                f"{len(self._rows):,} are found in its text. Write it anew with another program."
            )

    def _spans(self) -> Iterator[tuple[int, int]]:
        """Where the header and each row start and end; empty lines are none."""
        for match in self._row.finditer(self._text, self._start):
            if match[0].strip(b"\r\n"):
                yield match.span()

    def _cell(self, row: int, column: int) -> tuple[int, int]:
        """Where a cell starts and ends."""
        place = self._rows[row][0]
        for _ in range(column):
            match = self._field.match(self._text, place)
            assert match is not None
            place = match.end() + len(self._separator)
        match = self._field.match(self._text, place)
        assert match is not None
        return match.span()

    def word(self, row: int, column: int) -> bytes:
        """A cell as it is written, quotes and all."""
        start, end = self._cell(row, column)
        return self._text[start:end]

    def number(self, value: float, row: int, column: int) -> bytes:
        """A number as the cell of a row would have it."""
        text = f"{value:.15g}".replace(".", self._decimal).encode()
        return b'"%b"' % text if self.word(row, column).startswith(b'"') else text

    def write(
        self, path: Path, keep: Bool[np.ndarray, " rows"], column: int, words: dict[int, bytes]
    ) -> None:
        """Write the text without some rows, and with other words in one column of others.

        Args:
            path: of the new file.
            keep: which rows stay.
            column: place of the column.
            words: row → what its cell is to hold.
        """
        parts, done = [], 0
        for row in np.flatnonzero(~keep | np.isin(np.arange(len(keep)), list(words))):
            start, end = self._rows[row]
            if keep[row]:
                start, end = self._cell(int(row), column)
            parts += [self._text[done:start], words[int(row)] if keep[row] else b""]
            done = end
        text = b"".join((*parts, self._text[done:]))
        if self._wide:
            text = "\ufeff".encode(self._wide) + text.decode().encode(self._wide)
        path.write_bytes(gzip.compress(text, mtime=0) if self._is_zipped else text)
