"""Text files as UTF-8 in memory: unpacked, decoded, and how their columns are separated."""

from __future__ import annotations

import csv
import gzip
import io
import re
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from datassay.data.source import check_fits
from datassay.errors import DataError

_BLOCK = 2**20
_SAMPLE = 2**16  # bytes that tell the separator
_LINES = 20
_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x81\x8d\x8f\x90\x9d]")
_DECIMAL = re.compile(r"[-+]?\d+([.,])\d+")


@dataclass(frozen=True)
class PlainText:
    """What a text file holds.

    Attributes:
        content: its UTF-8.
        separator: of its columns.
        decimal: the decimal point of its numbers.
        note: what is not as usual, in a sentence; may be empty.
    """

    content: pa.Buffer
    separator: str = ","
    decimal: str = "."
    note: str = ""


def read_text(path: Path) -> PlainText:
    """A text file's content.

    Args:
        path: a file, gzipped where it ends in .gz.

    Returns:
        The content; UTF-16 by its byte order mark, and Windows-1252 where it is no UTF-8.

    Raises:
        DataError: it would not fit into memory, is no text, or is damaged UTF-8.
    """
    content = _unpacked(path) if path.suffix.lower() == ".gz" else _mapped(path)
    content, encoding = _utf8(content, path)
    notes = [f"is read as {encoding} text"] * bool(encoding)
    name = path.name.lower().removesuffix(".gz")
    separator, decimal = ("\t", ".") if name.endswith(".tsv") else _separator(content)
    if separator != "," and not name.endswith(".tsv"):
        notes.append(f"has columns separated by {separator!r}")
    notes += ["has decimal commas"] * (decimal == ",")
    note = f"{path.name} {' and '.join(notes)}." if notes else ""
    return PlainText(content, separator, decimal, note)


def _mapped(path: Path) -> pa.Buffer:
    check_fits(path.stat().st_size, f"the text in {path}")
    with pa.memory_map(str(path)) as file:
        return file.read_buffer()


def _unpacked(path: Path) -> pa.Buffer:
    parts, size = [], 0
    with gzip.open(path) as file:
        while part := file.read(_BLOCK):
            size += len(part)
            check_fits(3.0 * size, f"the text in {path}")
            parts.append(part)
    return pa.py_buffer(b"".join(parts))


def _utf8(content: pa.Buffer, path: Path) -> tuple[pa.Buffer, str]:
    """The content as UTF-8, and the encoding that it was in; empty where it was that."""
    head = bytes(memoryview(content)[:2])
    if head in {b"\xff\xfe", b"\xfe\xff"}:
        return pa.py_buffer(bytes(content).decode("utf-16").encode()), "UTF-16"
    ends = pa.py_buffer(memoryview(bytes(pa.array([0, content.size], pa.int64()).buffers()[1])))
    try:
        whole = pa.Array.from_buffers(pa.large_string(), 1, [None, ends, content])
        whole.validate(full=True)
        return content, ""
    except pa.ArrowInvalid:
        pass
    check_fits(6.0 * content.size, f"the text in {path}")
    raw = bytes(content)
    read = raw.decode("utf-8", errors="replace")
    lost = read.count("\ufffd")
    if sum(len(word) for word in re.findall(r"[^\x00-\x7f\ufffd]+", read)) > lost:
        raise DataError(
            f"{path} must be UTF-8 text; it is, but for {lost} places that are damaged. Correct "
            "them, or save it as UTF-8 once more."
        )
    if _NO_TEXT.search(raw):
        raise DataError(
            f"{path} must be text; it holds bytes that stand for no character in UTF-8 or "
            "Windows-1252. Save it as UTF-8."
        )
    return pa.py_buffer(raw.decode("cp1252").encode()), "Windows-1252 (Latin-1)"


def _separator(content: pa.Buffer) -> tuple[str, str]:
    """The separator under which the first lines have equally many columns, a comma if in doubt."""
    head = bytes(memoryview(content)[:_SAMPLE]).decode("utf-8-sig", errors="ignore")
    if content.size > _SAMPLE:
        head = head.rpartition("\n")[0]
    for separator in (",", ";", "\t", "|"):
        rows = _rows(head, separator)
        if len(rows) > 1 and len({len(row) for row in rows}) == 1 and len(rows[0]) > 1:
            points = {m[1] for row in rows for v in row if (m := _DECIMAL.fullmatch(v.strip()))}
            return separator, "," if separator != "," and points == {","} else "."
    return ",", "."


def _rows(text: str, separator: str) -> list[list[str]]:
    reader, rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator), []
    try:
        for row in reader:
            rows += [row] if row else []
            if len(rows) == _LINES:
                break
    except csv.Error:
        return []
    return rows
