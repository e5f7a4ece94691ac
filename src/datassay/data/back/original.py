"""Data as they are stored, how they are given back, and the changelog beside them."""

import csv
import io
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Shaped

from datassay.data.back.change import Change, find_donors, give_back_targets, ids_after
from datassay.data.memory.frames import described_range
from datassay.data.samples import are_several_labels
from datassay.data.source import reading
from datassay.data.tables.columns import read_column
from datassay.data.tables.images import with_named_images
from datassay.data.tables.numerals import number_word
from datassay.data.tables.preparation import refuse
from datassay.data.tables.read import Choices, ReadColumn
from datassay.data.tables.roles import resolve_roles
from datassay.data.tables.sources import plain_values, read_targets
from datassay.data.targets import encode_targets
from datassay.errors import DataError
from datassay.results import result

TABLE, RECORD = FILES = ("changelog.csv", "changelog.json")
COLUMNS = ("id", "decision", "given", "label", "when", "new_id")
MADE_BY = "datassay apply"
# What a spreadsheet takes as the start of a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")
Write = Callable[[Path, Bool[np.ndarray, " n"], Shaped[np.ndarray, " n *k"]], np.ndarray]
"""Called with an empty folder, which samples stay, and the labels of all; gives the new ids of
those that stay."""


@result
class Original:
    """A data set as it is stored, and how it is given back."""

    ids: Shaped[np.ndarray, " n"]  # of all samples that decisions can be about
    y: Shaped[np.ndarray, " n *k"]  # class indices, or targets, as `load` gives them
    class_names: tuple[str, ...]
    is_numbered: bool  # ids are positions in the data: when samples go, later ones move up
    file: str  # name in the folder that `write` fills; empty: that folder is the data
    write: Write
    notes: tuple[str, ...] = ()
    # keep [n] → the stored columns but for the targets, of the rows that stay; None: samples are
    # files.
    other_columns: Callable[[Bool[np.ndarray, " n"]], pa.Table] | None = None
    targets: tuple[str, ...] = ()  # names of several that `write` can change; empty: of one

    @property
    def target_names(self) -> tuple[str, ...]:
        """The names of several targets that are 0 or 1; empty of others."""
        if are_several_labels(self.y):
            return self.targets
        return ()


def original_table(
    path: Path, table: pa.Table, choices: Choices, give_back: Callable[[Path, Path, Change], None]
) -> Original:
    """Return a table's labelled rows, and how to write them to a file with other labels."""
    # give_back: (path, path to write, what becomes of the rows) writes the data given back.
    all_targets: list[ReadColumn] = []
    target_names = choices.targets(table.column_names)
    if target_names:
        table, all_targets = read_targets(table, str(path), choices, target_names)
        choices = replace(choices, target=target_names[0], task="regression")
    table = with_named_images(table, str(path), choices)
    table, choices = resolve_roles(table, str(path), choices)
    name = choices.target
    n_rows = table.num_rows
    assert name is not None

    def column(name: str, rows: np.ndarray | None = None) -> ReadColumn:
        values = table[name] if rows is None else table[name].take(pa.array(rows))
        read = read_column(values, name, choices)
        refuse([read], str(path))
        return read

    rows = np.arange(n_rows)
    target = column(name)
    if target.is_missing is not None:
        rows = np.flatnonzero(~target.is_missing)
        target = column(name, rows)
    ids = rows
    if choices.ids is not None:
        ids = plain_values(column(choices.ids))[rows]
    y, _, classes = encode_targets(plain_values(target), None, (), choices.task)
    y = restore_type(plain_values(target), y)
    if all_targets:
        y = np.stack([plain_values(read) for read in all_targets], 1).astype(np.float64)
    is_numbered = choices.ids is None
    index = table.column_names.index(name)
    file = "" if path.is_dir() else path.name

    def staying_rows(keep: np.ndarray) -> np.ndarray:
        stays = np.ones(n_rows, dtype=bool)  # rows without a label are no samples and stay
        stays[rows[~keep]] = False
        return stays

    def write(folder: Path, keep: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Write the table with its new labels; return the ids of the rows that stay."""
        # Labels of rows that go are not written.
        stays = staying_rows(keep)
        labels = np.where(keep, labels, y)
        donors: dict[int, int] = {}
        targets: dict[int, float | str] = {}
        if classes:
            by_position = find_donors(y, labels, classes)
            donors = {int(rows[i]): int(rows[j]) for i, j in by_position.items()}
        else:
            form = target.column.form
            for i in np.flatnonzero(labels != y):
                targets[int(rows[i])] = number_word(labels[i], form) if form else labels[i].item()
        give_back(path, folder / file, Change(name, index, stays, donors, targets))
        return ids_after(ids, keep, is_numbered=is_numbered)

    write_targets = partial(
        give_back_targets, (path, file), (target_names, table.column_names),
        (ids, rows, y), staying_rows, give_back,
    )  # fmt: skip
    inputs = table.drop_columns(target_names or [name])
    return Original(
        ids, y, classes, is_numbered, file, write_targets if all_targets else write,
        other_columns=lambda keep: inputs if keep.all() else inputs.filter(staying_rows(keep)),
        targets=tuple(target_names),
    )  # fmt: skip


def find_changed_column(table_before: pa.Table, table_after: pa.Table) -> str:
    """Return the name of a column with another value in some row; "" if none has.

    Without some rows a column may be read as another type. It is compared in that type, unless
    that is words, which may be written otherwise, or cannot hold its values.
    """
    for name in table_before.column_names:
        expected = table_before[name]
        if name not in table_after.column_names or len(table_after) != len(table_before):
            return name
        actual = table_after[name]
        if expected.equals(actual) or (expected.type != actual.type and actual.type == pa.string()):
            continue
        # Which cells count as missing depends on the cell alone, but of words on the whole column.
        if expected.type == actual.type and actual.type != pa.string():
            if expected.is_valid() != actual.is_valid():
                return name
        if pa.types.is_fixed_size_binary(expected.type):  # rows of an array
            return name
        with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
            expected = expected.cast(actual.type).cast(pa.large_string())  # in which NaN equals NaN
            if pc.any(pc.not_equal(expected, actual.cast(pa.large_string()))).as_py():
                return name
    return ""


def restore_type(stored: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return y with the stored values in their own type: float64 rounds integers above 2^53."""
    if stored.dtype.kind in "iuf" and y.dtype.kind == "f":
        return stored.reshape(y.shape)
    return y


def rewrite_text(
    text: bytes,
    rows: Sequence[tuple[int, int]],
    cell: Callable[[int], tuple[int, int]],
    number: Callable[[bytes, float | str], bytes],
    change: Change,
) -> bytes:
    """Return the bytes of a text file with some rows removed and some labels replaced."""
    # rows: start and end of each, line ending included. cell: row → start and end of its label.
    # number: (the word that stands there, the new target) → the new word.
    words = {i: text[slice(*cell(j))] for i, j in change.donor.items()}
    words |= {i: number(text[slice(*cell(i))], value) for i, value in change.number.items()}
    parts = []
    position = 0
    for row in sorted({*np.flatnonzero(~change.keep).tolist(), *words}):
        stays = change.keep[row]
        start, end = cell(row) if stays else rows[row]
        parts += [text[position:start], words[row] if stays else b""]
        position = end
    return b"".join((*parts, text[position:]))


def hand_on(source: Path, target: Path, *, may_link: bool) -> None:
    """Copy a file to a new place; if `may_link`, by a hard link where that is possible."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if may_link:
        try:
            os.link(os.path.realpath(source), target)
            return
        except OSError:  # another disk, or a file system without links
            pass
    shutil.copy2(source, target)


def files_in(folder: Path) -> Iterator[str]:
    """Yield relative paths of all files in a folder, sorted, without hidden ones and changelog."""
    visited = set()  # a link can lead back to a folder above it
    for parent, folders, names in os.walk(folder, followlinks=True):
        visited.add(os.path.realpath(parent))
        inside = [name for name in sorted(folders) if not name.startswith(".")]
        folders[:] = [n for n in inside if os.path.realpath(Path(parent, n)) not in visited]
        for name in sorted(names):
            path = Path(parent, name).relative_to(folder).as_posix()
            if not name.startswith(".") and path not in FILES:
                yield path


_INDEX = "__index_level_0__"  # as pandas names labels of rows that have no name


def write_out_range(table: pa.Table) -> pa.Table:
    """Return a table with its row labels as a column if they are a range other than 0, 1, ..."""
    # Without some rows they are no range any more; pandas, too, then writes a column. A range from
    # 0 only counts the rows, and still does so.
    described = described_range(table)
    if described is None:
        return table
    labels, label_name = described
    description = json.loads(table.schema.metadata[b"pandas"])
    if (labels.start, labels.step) == (0, 1):
        description["index_columns"] = []
    else:
        name = label_name or _INDEX
        column = {"name": label_name, "field_name": name, "pandas_type": "int64",
                  "numpy_type": "int64", "metadata": None}  # fmt: skip
        description |= {"index_columns": [name], "columns": [*description["columns"], column]}
        table = table.append_column(name, pa.array(labels, pa.int64()))
    metadata = table.schema.metadata | {b"pandas": json.dumps(description).encode()}
    return table.replace_schema_metadata(metadata)


def apply_change(table: pa.Table, change: Change) -> pa.Table:
    """Return a table with the changed labels, without the removed rows."""
    position = change.index
    values = table[change.column]
    if change.donor:
        rows = np.arange(table.num_rows)
        rows[list(change.donor)] = list(change.donor.values())
        values = values.take(pa.array(rows))
    if change.number:
        targets = [None] * table.num_rows
        is_new = np.isin(np.arange(table.num_rows), list(change.number))
        for row, value in change.number.items():
            targets[row] = value
        try:
            values = pc.if_else(pa.array(is_new), pa.array(targets).cast(values.type), values)
        except (pa.ArrowException, ValueError) as error:
            raise DataError(
                f"column {change.column!r} must hold its new targets as {values.type}; "
                f"{' '.join(str(error).split())}. Decide on numbers of that kind."
            ) from error
    table = table.set_column(position, table.schema.field(position), values)
    if change.keep.all():
        return table
    return write_out_range(table).filter(pa.array(change.keep))


@result
class Changelog:
    """What was decided about samples, and what became of their ids."""

    rows: tuple[dict[str, str], ...]  # one a decision; "new_id" is empty where it is removed
    digest: str  # of the data before, from `source_digest`
    digest_after: str  # of the data given back
    is_numbered: bool  # ids are positions: samples behind a removed one move up
    files: dict[str, str]  # path in the folder → SHA-256, of the data given back

    def new_ids(self, ids: np.ndarray) -> list[str]:
        """Return the present ids, [n], as text; "" for samples that were removed."""
        new_id_of = {row["id"]: row["new_id"] for row in self.rows}
        if not self.is_numbered:
            return [new_id_of.get(str(name), str(name)) for name in ids.tolist()]
        removed = np.sort([int(name) for name, new_id in new_id_of.items() if not new_id])
        positions = ids - np.searchsorted(removed, ids)
        return [
            "" if new_id_of.get(str(name)) == "" else str(position)
            for name, position in zip(ids.tolist(), positions.tolist(), strict=True)
        ]

    def texts(self) -> dict[str, str]:
        """Return file name → text: a table that is safe in a spreadsheet, and a record."""
        record = {
            "made_by": MADE_BY,
            "digest": self.digest,
            "digest_after": self.digest_after,
            "is_numbered": self.is_numbered,
            "files": self.files,
            "rows": self.rows,
        }
        return {
            TABLE: format_spreadsheet([COLUMNS, *(map(row.get, COLUMNS) for row in self.rows)]),
            RECORD: json.dumps(record, indent=1, ensure_ascii=False) + "\n",
        }


def format_spreadsheet(rows: Iterable[Iterable[object]]) -> str:
    """Return rows as CSV; an apostrophe stands before what a spreadsheet would compute."""
    text = io.StringIO()
    for row in rows:
        cells = [f"'{v}" if isinstance(v, str) and v.startswith(FORMULA) else v for v in row]
        # `csv` does not quote a carriage return, after which a spreadsheet would begin a new row.
        if any("\r" in str(v) for v in cells):
            quoting = csv.QUOTE_ALL
        else:
            quoting = csv.QUOTE_MINIMAL
        csv.writer(text, lineterminator="\n", quoting=quoting).writerow(cells)
    return text.getvalue()


def read_changelog(data: Path) -> Changelog | None:
    """Return the changelog that `apply` wrote beside the data; None if there is none."""
    path = (data if data.is_dir() else data.parent) / RECORD
    if not path.is_file():
        return None
    try:
        with reading(path):
            record = json.loads(path.read_text(encoding="utf-8"))
        if record.get("made_by") != MADE_BY:
            return None
        rows = tuple({name: str(row[name]) for name in COLUMNS} for row in record["rows"])
        return Changelog(
            rows, str(record["digest"]), str(record["digest_after"]), bool(record["is_numbered"]),
            dict(record["files"]),
        )  # fmt: skip
    except (LookupError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path} must be as datassay apply wrote it; it was changed. Apply the decisions again."
        ) from error


def given_back_file(folder: Path) -> Path | None:
    """Return the only data file in a folder that `apply` wrote; None otherwise."""
    if not (folder / RECORD).is_file():
        return None
    inside = [p for p in folder.iterdir() if not p.name.startswith(".") and p.name not in FILES]
    if len(inside) == 1 and inside[0].is_file():
        return inside[0]
    return None
