"""CSV and TSV: text, gzipped or not; given back byte by byte but for rows and labels decided on."""

import codecs
import csv
import gzip
import io
import mmap
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from datassay.data.back.original import Change, rewrite_text
from datassay.data.format import TableFormat
from datassay.data.source import check_fits, parse_in_blocks
from datassay.data.tables.numerals import CODE, GROUPED, MARK, NUMBER, numeral
from datassay.data.tables.read import QUOTE, abridge, rows_of
from datassay.data.tables.roles import DECIMAL, NOTE
from datassay.errors import DataError
from datassay.optional import text_if

BLOCK = 2**20  # bytes that Arrow parses at a time, unless a row is longer
OFTEN = 0.5  # a code has this share of the rows it would have if all were equally frequent
MANY = 0.05  # of all rows: words read as missing in so many are named
_INTEGER = r"^(0|-?[1-9]\d{0,17})$"
_LEADING_ZERO = re.compile(rb"[,;|\t\r\n\"]\s*0\d")
_SAMPLE = 2**16  # bytes, and
_LINES = 20  # rows by which the separator is found
_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x81\x8d\x8f\x90\x9d]")
_DECIMAL = re.compile(r"[-+]?(?![1-9]\d{0,2}[.,]\d{3}$)\d+([.,])\d+")  # thousands aside
_WIDE = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


@dataclass(frozen=True)
class _Text:
    """What a text file holds, in UTF-8, and its former encoding, in a sentence."""

    content: pa.Buffer
    separator: str = ","
    decimal: str = "."
    note: str = ""


def _read_text(path: Path) -> _Text:
    """Return a file's text as UTF-8, with its separator, decimal mark and former encoding."""
    if path.suffix.lower() == ".gz":
        content = _unpack(path)
    else:
        size = path.stat().st_size
        check_fits(size, f"the text in {path}")
        with path.open("rb") as file:  # Arrow opens no name that is not UTF-8
            mapped = b""
            if size:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        content = pa.py_buffer(mapped)
    content, encoding = _decode(content, path)
    name = path.name.lower().removesuffix(".gz")
    separator = "\t"
    decimal = "."
    if not name.endswith(".tsv"):
        separator, decimal = _find_separator(content)
    note = text_if(encoding, f"{path.name} is read as {encoding} text.")
    return _Text(content, separator, decimal, note)


def _unpack(path: Path) -> pa.Buffer:
    """Return what a gzipped file holds; refuse more than fits into memory."""
    blocks = []
    size = 0
    with gzip.open(path) as file:
        while block := file.read(BLOCK):
            size += len(block)
            check_fits(3.0 * size, f"the text in {path}")
            blocks.append(block)
    return pa.py_buffer(b"".join(blocks))


def _decode(content: pa.Buffer, path: Path) -> tuple[pa.Buffer, str]:
    """Return the content as UTF-8, and its former encoding ("" if it was UTF-8)."""
    head = bytes(memoryview(content)[:2])
    if head in {b"\xff\xfe", b"\xfe\xff"}:
        return pa.py_buffer(bytes(content).decode("utf-16").encode()), "UTF-16"
    ends = pa.py_buffer(np.array([0, content.size], np.int64))  # pa.array would import pandas
    try:
        text = pa.Array.from_buffers(pa.large_string(), 1, [None, ends, content])
        text.validate(full=True)
        return content, ""
    except pa.ArrowInvalid:
        pass
    check_fits(6.0 * content.size, f"the text in {path}")
    raw = bytes(content)
    decoded = raw.decode("utf-8", errors="replace")
    n_damaged = decoded.count("\ufffd")
    n_accented = sum(len(word) for word in re.findall(r"[^\x00-\x7f\ufffd]+", decoded))
    if n_accented > n_damaged:
        raise DataError(
            f"{path} must be UTF-8 text; it is, but for {n_damaged} characters that are damaged. "
            "Fix them, or save it as UTF-8 once more."
        )
    if _NO_TEXT.search(raw):
        raise DataError(
            f"{path} must be text; it holds bytes that stand for no character in UTF-8 or "
            "Windows-1252. Save it as UTF-8."
        )
    return pa.py_buffer(raw.decode("cp1252").encode()), "Windows-1252 (Latin-1)"


def _find_separator(content: pa.Buffer) -> tuple[str, str]:
    """Return separator and decimal mark: those by which the first lines have equal columns."""
    head = bytes(memoryview(content)[:_SAMPLE]).decode("utf-8-sig", errors="ignore")
    if content.size > _SAMPLE:
        head = head.rpartition("\n")[0]
    for separator in (",", ";", "\t", "|"):
        rows = _split_rows(head, separator)
        if len(rows) > 1 and len({len(row) for row in rows}) == 1 and len(rows[0]) > 1:
            decimals = [_DECIMAL.fullmatch(cell.strip()) for row in rows for cell in row]
            if separator != "," and {match[1] for match in decimals if match} == {","}:
                return separator, ","
            return separator, "."
    return ",", "."


def _split_rows(text: str, separator: str) -> list[list[str]]:
    """Return the cells of a text's first rows; [] if `separator` cannot split it."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    rows = []
    try:
        for row in reader:
            if row:
                rows.append(row)
            if len(rows) == _LINES:
                break
    except csv.Error:
        return []
    return rows


def _read(path: Path, ids: str | None) -> pa.Table:
    """Return the table in a text file, its columns typed by their values."""
    # Columns of digits with leading zeros stay strings, ids unless all are plain whole numbers.
    text = _read_text(path)
    table = _parse_typed(text, ids)
    _check_header(path, table)
    table, missing_note = _restore_codes(table, text)
    _check_quotes(path, text, table)
    pa.default_memory_pool().release_unused()  # the parser held about as much as the table
    if table.column_names.count(ids) == 1:
        is_whole = pc.match_substring_regex(table[ids].drop_null(), _INTEGER)
        if pc.all(is_whole, min_count=0).as_py():
            index = table.column_names.index(ids)
            table = table.set_column(index, ids, table[ids].cast(pa.int64()))
    note = " ".join(filter(None, (text.note, missing_note)))
    return table.replace_schema_metadata({NOTE: note, DECIMAL: text.decimal.strip(".")})


def _read_header(path: Path) -> list[str]:
    """Return the first line's cells, the column names."""
    text = _read_text(path)
    head = bytes(memoryview(text.content)[:_SAMPLE]).decode("utf-8-sig", errors="ignore")
    return next(iter(_split_rows(head, text.separator)), [])


def _parse_typed(text: _Text, ids: str | None) -> pa.Table:
    """Return the table as Arrow types it, with ids and codes such as 007 as strings."""
    as_strings = {}
    if ids is not None:
        as_strings = {ids: pa.string()}  # as the number 123 "00123" would match no id elsewhere
    table = _parse(text, as_strings)
    types = dict(zip(table.column_names, table.schema.types, strict=True))
    if len(types) < table.num_columns:
        return table  # two columns of one name: refused later
    numbers = [n for n, t in types.items() if pa.types.is_integer(t) or pa.types.is_floating(t)]
    # Without a leading zero in the file only numbers that may be thousands need a second look.
    if not _LEADING_ZERO.search(memoryview(text.content)):
        numbers = [name for name in numbers if name != ids and _may_be_thousands(table[name])]
    if not numbers:
        return table
    words = _parse(text, as_strings | dict.fromkeys(numbers, pa.string()))
    codes = [name for name in numbers if _must_stay_text(words[name])]
    if codes:
        return _parse(text, as_strings | dict.fromkeys(codes, pa.string()))
    return table


def _check_header(path: Path, table: pa.Table) -> None:
    """Raise if the first line holds values instead of names, or the names recur as a row."""
    columns = [(n, c) for n, c in zip(table.column_names, table.itercolumns(), strict=True) if n]
    is_header = np.zeros(len(table), bool)
    if len(columns) > 1 and all(pa.types.is_string(column.type) for _, column in columns):
        masks = [pc.equal(column, name).fill_null(False) for name, column in columns]
        is_header = np.logical_and.reduce([mask.to_numpy() for mask in masks])
    samples = table
    if is_header.any():
        samples = table.filter(pa.array(~is_header))
    if samples.num_rows and _header_is_data(samples):
        raise DataError(
            f"{path} must start with a line of column names; its first line looks like a sample: "
            f"{', '.join(table.column_names[:5])}. Add a header line, or, if it is one, rename the "
            "last column, which is called as one of its values is."
        )
    if is_header.any():
        raise DataError(
            f"{path} must hold its line of column names once; it is repeated in "
            f"{rows_of(is_header)}, counted from 0. Remove it there."
        )


def _restore_codes(table: pa.Table, text: _Text) -> tuple[pa.Table, str]:
    """Return the table with "NA" as a value in columns of codes, and a note on other words.

    The note names other words that were read as missing in many rows.
    """
    columns = zip(table.column_names, table.itercolumns(), strict=True)
    names = [n for n, c in columns if pa.types.is_string(c.type) and c.null_count]
    if not names or len({*table.column_names}) < table.num_columns:
        return table, ""
    lines = []
    words = _parse(text, dict.fromkeys(names, pa.string()), names)
    for name in names:
        values, counts = pc.value_counts(words[name].drop_null()).flatten()
        n_rows = dict(zip(values.to_pylist(), counts.to_pylist(), strict=True))
        missing = n_rows.keys() - set(table[name].unique().to_pylist())
        n_codes = sum(1 for word in n_rows.keys() - missing if re.fullmatch("[A-Z]{2}", word))
        # NA beside one other word is a code: as missing it would leave a column of one value.
        is_often = n_rows.get("NA", 0) * len(n_rows) >= OFTEN * len(table) or len(n_rows) == 2
        if missing == {"NA"} and is_often and 2 * n_codes > len(n_rows) - 1:
            table = table.set_column(table.column_names.index(name), name, words[name])
            continue
        frequent = [word for word in sorted(missing) if n_rows[word] >= MANY * len(table)]
        lines += [f"{word!r} in {n_rows[word]:,} rows of {name!r}" for word in frequent]
    return table, text_if(lines, f"Read as missing: {abridge(lines)}. {QUOTE}.")


def _must_stay_text(words: pa.ChunkedArray) -> bool:
    """Return whether a column of digits holds codes (007) or ambiguous thousands (1.234)."""
    has_code = pc.any(pc.match_substring_regex(words, CODE)).as_py()
    has_point = pc.any(pc.match_substring(words, ".")).as_py()
    are_grouped = pc.all(pc.match_substring_regex(words, GROUPED)).as_py()
    return has_code or bool(has_point and are_grouped)


def _may_be_thousands(values: pa.ChunkedArray) -> bool:
    """Return whether all numbers have three decimals, so that 1.234 could be 1234."""
    present = values.drop_null().to_numpy()
    if present.dtype.kind != "f" or not (np.abs(present) < 1000).all():
        return False
    return bool((np.abs(1000 * present - np.round(1000 * present)) < 1e-6).all())


def _parse(text: _Text, types: dict[str, pa.DataType], names: Sequence[str] = ()) -> pa.Table:
    """Parse a text's columns with these types; of `names` only those, "NA" kept as a value."""
    parsing = arrow_csv.ParseOptions(delimiter=text.separator, newlines_in_values=True)
    conversion = arrow_csv.ConvertOptions(
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        column_types=types,
        decimal_point=text.decimal,
        include_columns=list(names),
        null_values=[""] if names else None,
    )

    def parse(block: int) -> pa.Table:
        blocks = arrow_csv.ReadOptions(block_size=block)
        return arrow_csv.read_csv(pa.BufferReader(text.content), blocks, parsing, conversion)

    return parse_in_blocks(parse, text.content.size)


def _header_is_data(table: pa.Table) -> bool:
    """Return whether the column names look like values, so that the file has no header."""
    # It does if all names are numbers, but not 0, 1, ..., which pandas writes; or if the last name
    # occurs in its column, and every other name could be a value of its column.
    names = table.column_names
    numbers = [name for name in names if re.match(NUMBER, name)]
    if len(numbers) > 1 and numbers == [str(i) for i in range(len(numbers))]:
        return False
    last_column = table.column(table.num_columns - 1).cast(pa.string())
    occurs = pc.any(pc.equal(last_column, names[-1]), min_count=0).as_py()
    if len(numbers) == len(names):
        return True
    columns = zip(names[:-1], table.itercolumns(), strict=False)
    return bool(occurs) and not any(_can_only_name(name, column) for name, column in columns)


def _can_only_name(name: str, column: pa.ChunkedArray) -> bool:
    """Return whether a name cannot be a value of its column, as a word above numbers."""
    if not any(letter.isalpha() for letter in name) or re.match(MARK, name):
        return False
    if not pa.types.is_string(column.type):
        with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return pa.array([name]).cast(column.type) is None
        return True
    n_rows = pc.value_counts(column.drop_null()).field("counts").to_numpy()
    occurs = pc.any(pc.equal(column, name), min_count=0).as_py()
    if occurs or not len(n_rows):
        return False
    n_spaces = pc.mean(pc.count_substring(column, " ")).as_py()
    return bool(n_rows.min() > 1 or (n_spaces >= 2 and name.count(" ") < n_spaces / 2))


def _check_quotes(path: Path, text: _Text, table: pa.Table) -> None:
    """Raise if a quote is opened and never closed, which would swallow rows."""
    # Quotes come in pairs, also those inside a quoted value, which are doubled. An odd one that is
    # no more than a mark (5" pipe) does no harm while every value stands in one line.
    view = memoryview(text.content)
    blocks = (bytes(view[start : start + BLOCK]) for start in range(0, len(view), BLOCK))
    if sum(block.count(b'"') for block in blocks) % 2 == 0:
        return
    for name, column in zip(table.column_names, table.itercolumns(), strict=True):
        if not pa.types.is_string(column.type):
            continue
        row = pc.index(pc.match_substring(column, "\n"), True).as_py()
        if row >= 0:
            raise DataError(
                f"{path} must close every quote; it holds an odd number of them, and column "
                f"{name!r} goes over several lines in row {row}: {column[row].as_py()[:40]!r}. "
                "Close that quote, or remove it."
            )


def _write(path: Path, target: Path, change: Change) -> None:
    """Write the text with rows removed and labels replaced, all other bytes unchanged."""
    is_zipped = path.suffix.lower() == ".gz"
    raw = path.read_bytes()
    if is_zipped:
        raw = gzip.decompress(raw)
    encoding = _WIDE.get(raw[:2], "")  # separators of UTF-16 are no single bytes
    text = raw
    if encoding:
        text = raw[2:].decode(encoding).encode()
    text_read = _read_text(path)
    separator = text_read.separator.encode()
    mark = re.escape(separator)
    # A field is a quoted text, if there is one, and what follows up to a separator or line end.
    quoted = rb'"[^"]*+(?:""[^"]*+)*+"'
    field = re.compile(rb"(?:%b)?+[^%b\r\n]*+" % (quoted, mark))
    line = rb"%b(?:%b%b)*+(?:\r\n|\n|\r|\Z)" % (field.pattern, mark, field.pattern)
    start = 0
    if text.startswith(codecs.BOM_UTF8):
        start = len(codecs.BOM_UTF8)
    spans = (match.span() for match in re.compile(line).finditer(text, start))
    _header_span, *rows = (span for span in spans if text[slice(*span)].strip(b"\r\n"))
    if len(rows) != len(change.keep):
        raise DataError(
            f"{path} must be given back row by row; {len(change.keep):,} rows were read, "
            f"{len(rows):,} are found in its text. Write it anew with another program."
        )

    def cell(row: int) -> tuple[int, int]:
        """Return where the label of a row starts and ends."""
        begin = end = rows[row][0]
        for column in range(change.index + 1):
            begin = end + len(separator) if column else end
            match = field.match(text, begin)
            assert match is not None
            end = match.end()
        return begin, end

    def number(word: bytes, value: float | str) -> bytes:
        """Return a new target as it is written, in quotes where the earlier word has them."""
        is_word = isinstance(value, str)
        new_word = value if is_word else numeral(value).replace(".", text_read.decimal)
        if word.startswith(b'"'):
            return b'"%b"' % new_word.encode()
        return new_word.encode()

    text = rewrite_text(text, rows, cell, number, change)
    if encoding:
        text = "\ufeff".encode(encoding) + text.decode().encode(encoding)
    target.write_bytes(gzip.compress(text, mtime=0) if is_zipped else text)


FORMAT = TableFormat(
    names=_read_header,
    name="CSV and TSV",
    suffixes=(".csv", ".tsv", ".csv.gz", ".tsv.gz"),
    read=_read,
    give_back=_write,
)
