"""CSV and TSV files as Arrow tables: one header line, no quote left open."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from datassay.data.files.plain_text import PlainText, read_text
from datassay.data.tables.number_words import CODE, NUMBER
from datassay.errors import DataError

BLOCK = 2**20  # bytes that Arrow parses at a time, unless a row is longer
_INTEGER = r"^(0|-?[1-9]\d{0,17})$"
NOTE = b"note"  # of a table's metadata
_LEADING_ZERO = re.compile(rb"[,;|\t\r\n\"]\s*0\d")


def read_delimited(path: Path, ids: str | None) -> pa.Table:
    """The table in a file, columns typed by what they hold.

    Args:
        path: .csv or .tsv, with a header line, gzipped or not; tabs separate the latter.
        ids: the column of ids, which stay strings unless all are plain whole numbers.

    Returns:
        The table; columns that hold digits with leading zeros are strings.

    Raises:
        DataError: no text, no header line, or a quote that is never closed.
    """
    text = read_text(path)
    table = _typed(text, ids)
    if table.num_rows and _header_is_data(table):
        raise DataError(
            f"{path} must start with a line of column names; its first line looks like a sample: "
            f"{', '.join(table.column_names[:5])}. Add a header line."
        )
    _check_quotes(path, text, table)
    pa.default_memory_pool().release_unused()  # the parser held about as much as the table
    if table.column_names.count(ids) == 1 and _all_match(table[ids].drop_null(), _INTEGER):
        place = table.column_names.index(ids)
        table = table.set_column(place, ids, table[ids].cast(pa.int64()))
    return table.replace_schema_metadata({NOTE: text.note}) if text.note else table


def _typed(text: PlainText, ids: str | None) -> pa.Table:
    as_words = {} if ids is None else {ids: pa.string()}  # "00123" would no longer join
    table = _parsed(text, as_words)
    columns = list(zip(table.column_names, table.schema.types, strict=True))
    if len({name for name, _ in columns}) < len(columns):
        return table  # which is refused for it: no column can be named
    numbers = [name for name, kind in columns if _is_number(kind)]
    if numbers and _LEADING_ZERO.search(memoryview(text.content)):
        codes = _codes(_parsed(text, as_words | dict.fromkeys(numbers, pa.string())), numbers)
        table = _parsed(text, as_words | dict.fromkeys(codes, pa.string())) if codes else table
    return table


def _parsed(text: PlainText, types: dict[str, pa.DataType]) -> pa.Table:
    size, block = text.content.size, BLOCK
    while True:
        try:
            return csv.read_csv(
                pa.BufferReader(text.content),
                read_options=csv.ReadOptions(block_size=block),
                parse_options=csv.ParseOptions(delimiter=text.separator, newlines_in_values=True),
                convert_options=csv.ConvertOptions(
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                    column_types=types,
                    decimal_point=text.decimal,
                ),
            )
        except pa.ArrowInvalid as error:  # a row longer than a block
            if "straddling" not in str(error) or block > size:
                raise
            block = min(16 * block, 2**31 - 1)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _codes(words: pa.Table, names: list[str]) -> list[str]:
    """The columns of numbers that hold digits with leading zeros."""
    return [
        name
        for name in names
        if pc.any(pc.match_substring_regex(words[name], CODE)).as_py()  # type: ignore[attr-defined]
    ]


def _all_match(words: pa.ChunkedArray, pattern: str) -> bool:
    matches = pc.match_substring_regex(words, pattern)  # type: ignore[attr-defined]
    return pc.all(matches, min_count=0).as_py()  # type: ignore[attr-defined]


def _header_is_data(table: pa.Table) -> bool:
    # pandas names nameless columns 0, 1, ...; such a header is one.
    names = table.column_names
    numbers = [name for name in names if re.match(NUMBER, name)]
    if len(numbers) > 1 and numbers == [str(i) for i in range(len(numbers))]:
        return False
    last = table.column(table.num_columns - 1).cast(pa.string())
    occurs = pc.any(pc.equal(last, names[-1]), min_count=0).as_py()  # type: ignore[attr-defined]
    return len(numbers) == len(names) or bool(occurs)


def _check_quotes(path: Path, text: PlainText, table: pa.Table) -> None:
    """Refuse a quote that is opened and never closed: it swallows rows."""
    # Quotes come in pairs, also those inside a quoted value, which are doubled. An odd one that is
    # no more than a mark (5" pipe) does no harm while every value stands in one line.
    view = memoryview(text.content)
    parts = (bytes(view[start : start + BLOCK]) for start in range(0, len(view), BLOCK))
    if sum(part.count(b'"') for part in parts) % 2 == 0:
        return
    for name, column in zip(table.column_names, table.itercolumns(), strict=True):
        if not pa.types.is_string(column.type):
            continue
        lines = pc.match_substring(column, "\n")  # type: ignore[attr-defined]
        row = pc.index(lines, True).as_py()  # type: ignore[attr-defined]
        if row >= 0:
            raise DataError(
                f"{path} must close every quote; it holds an odd number of them, and column "
                f"{name!r} goes over several lines in row {row}: {column[row].as_py()[:40]!r}. "
                "Close that quote, or remove it."
            )
