"""Tables given back: labels changed and rows removed in the file's own format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Shaped

from datassay.data.back.columnar import stored_table, with_rows, write_like
from datassay.data.back.delimited import DelimitedText
from datassay.data.back.json_lines import JsonLines
from datassay.data.back.original import Original, donors, ids_after
from datassay.data.back.saved_dataset import write_saved_dataset
from datassay.data.files.saved_dataset import read_saved_dataset
from datassay.data.files.tables import table_of, with_roles
from datassay.data.strings import compact
from datassay.data.tables.choices import Choices
from datassay.data.tables.columns import read_column
from datassay.data.tables.preparation import refuse
from datassay.data.tables.read import ReadColumn
from datassay.data.targets import encode_targets
from datassay.results import result

LINES = (".jsonl", ".ndjson")
COLUMNS = (".parquet", ".feather", ".arrow")


@result
class Change:
    """What becomes of a table's rows.

    Attributes:
        column: name of the label's column.
        place: of that column among all.
        keep: [rows], which rows stay.
        donor: row → another row, whose label it gets as it is written there.
        number: row → the target it gets.
    """

    column: str
    place: int
    keep: Bool[np.ndarray, " rows"]
    donor: dict[int, int]
    number: dict[int, float]


def original_table(path: Path, chosen: Choices) -> Original:
    """A table as it is stored.

    Args:
        path: of a kind that `load` reads; a folder of Hugging Face's datasets, too.
        chosen: what its columns are for.

    Returns:
        Ids and labels of the rows that have a label; the others are kept as they are.

    Raises:
        DataError: what `load` raises of such a table.
    """
    is_folder = path.is_dir()
    table = read_saved_dataset(path) if is_folder else table_of(path, chosen)
    table, chosen = with_roles(table, str(path), chosen)
    name = chosen.target
    assert name is not None
    target = read_column(table[name], name, chosen)
    refuse([target], str(path))
    rows = np.arange(table.num_rows)
    if target.is_missing is not None:
        rows = np.flatnonzero(~target.is_missing)
        target = read_column(table[name].take(pa.array(rows)), name, chosen)
        refuse([target], str(path))
    ids = rows
    if chosen.ids is not None:
        named = read_column(table[chosen.ids], chosen.ids, chosen)
        refuse([named], str(path))
        ids = _plain(named)[rows]
    y, _, classes = encode_targets(_plain(target), None, (), chosen.task)
    is_numbered, n_rows = chosen.ids is None, table.num_rows
    place = table.column_names.index(name)

    def write(folder: Path, keep: np.ndarray, new: np.ndarray) -> np.ndarray:
        change = _change(name, place, n_rows, rows, keep, y, new, classes)
        _write(path, folder if is_folder else folder / path.name, change)
        return ids_after(ids, keep, is_numbered=is_numbered)

    return Original(ids, y, classes, is_numbered, "" if is_folder else path.name, write)


def _plain(column: ReadColumn) -> np.ndarray:
    if column.values is not None:
        return column.values
    assert column.words is not None
    return compact(column.words)


def _change(
    column: str,
    place: int,
    n_rows: int,
    rows: np.ndarray,
    keep: Bool[np.ndarray, " n"],
    y: Shaped[np.ndarray, " n"],
    new: Shaped[np.ndarray, " n"],
    classes: tuple[str, ...],
) -> Change:
    """What samples become, as what rows become; rows without a label are no samples and stay."""
    stays = np.ones(n_rows, dtype=bool)
    stays[rows[~keep]] = False
    new = np.where(keep, new, y)  # of what goes no label is written
    donor, number = {}, {}
    if classes:
        donor = {int(rows[i]): int(rows[j]) for i, j in donors(y, new, classes).items()}
    else:
        number = {int(rows[i]): float(new[i]) for i in np.flatnonzero(new != y)}
    return Change(column, place, stays, donor, number)


def _write(path: Path, target: Path, change: Change) -> None:
    kind, n_rows = path.suffix.lower(), len(change.keep)
    becomes = change.column, change.keep, change.donor, change.number
    if path.is_dir():
        write_saved_dataset(path, target, *becomes)
    elif kind in COLUMNS:
        write_like(with_rows(stored_table(path), *becomes), target, path)
    elif kind in LINES:
        lines = JsonLines(path, n_rows)
        words = {i: lines.word(j, change.column) for i, j in change.donor.items()}
        words |= {i: lines.number(value) for i, value in change.number.items()}
        lines.write(target, change.keep, change.column, words)
    else:
        text = DelimitedText(path, n_rows)
        words = {i: text.word(j, change.place) for i, j in change.donor.items()}
        words |= {i: text.number(v, i, change.place) for i, v in change.number.items()}
        text.write(target, change.keep, change.place, words)
