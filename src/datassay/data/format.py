"""What a file format declares, and which of them a path is of: for `load` and `apply` alike.

A format is one module in `formats/`, or an entry point of the group `datassay.formats`, that holds
a `Format` or a `TableFormat`; nothing else knows which formats there are.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from datassay.data.back.original import Change, Original, given_back_file, original_table
from datassay.data.memory.frames import without_views
from datassay.data.source import Source, Task, reading
from datassay.data.tables.read import Choices
from datassay.data.tables.sources import table_source
from datassay.errors import DataError
from datassay.plugins import modules_in, plugins

LONGEST_CELL = 10_000_000  # bytes


@dataclass(frozen=True, kw_only=True)
class _BaseFormat:
    """What any format declares.

    Attributes:
        name: for people, such as "Parquet".
        suffixes: of its files, in lower case, with the dot; empty: it is one of folders.
        holds: what a folder of it holds, for an error; empty: it is one of files.
        is_folder: whether a folder is of it; None: it is one of files.
        asked_last: whether other formats of folders are asked first, as this one takes many.
    """

    name: str
    suffixes: tuple[str, ...] = ()
    holds: str = ""
    is_folder: Callable[[Path], bool] | None = None
    asked_last: bool = False

    @property
    def is_table(self) -> bool:
        """Whether columns can be named."""
        return isinstance(self, TableFormat)

    def refusal(self, path: Path) -> DataError:
        """Return the error for data in a format that cannot be written back."""
        names = [f.name for f in formats() if f.give_back is not None]
        return DataError(
            f"data must be of a format that can be given back ({', '.join(names)}); {path} is of "
            f"{self.name}. Export the decisions instead, or convert the data and run again."
        )


@dataclass(frozen=True, kw_only=True)
class Format(_BaseFormat):
    """A format that holds samples as such.

    Attributes:
        read: path → the source.
        give_back: path, task, may_link → the data as they are stored; may_link: whether files
            that do not change may be second names of the same ones. None: it cannot be given back.
    """

    read: Callable[[Path], Source]
    give_back: Callable[[Path, Task | None, bool], Original] | None = None

    def source(self, path: Path, choices: Choices) -> Source:
        """Return the samples in a file or folder."""
        return self.read(path)

    def original(self, path: Path, choices: Choices, *, may_link: bool) -> Original:
        """Return the stored data, to be written with other labels; raise if they cannot be."""
        if self.give_back is None:
            raise self.refusal(path)
        return self.give_back(path, choices.task, may_link)


@dataclass(frozen=True, kw_only=True)
class TableFormat(_BaseFormat):
    """A format of tables: one row per sample, columns by name.

    Attributes:
        read: path, and the column of ids where one is named → the table.
        names: path → its columns' names, faster than by `read`; None: it is as fast.
        give_back: path, new path, what becomes of its rows: writes the new file, or fills the new
            folder; all that is not named stays to the byte. None: it cannot be given back.
    """

    read: Callable[[Path, str | None], pa.Table]
    names: Callable[[Path], list[str]] | None = None
    give_back: Callable[[Path, Path, Change], None] | None = None

    def table(self, path: Path, choices: Choices) -> pa.Table:
        """Return the table in a file or folder."""
        ids = None
        if isinstance(choices.ids, str):
            ids = choices.ids
        with nullcontext() if path.is_dir() else reading(path):
            table = without_views(self.read(path, ids))
        _check_cells(path, table)
        return table

    def source(self, path: Path, choices: Choices) -> Source:
        """Return the samples of the table in a file or folder."""
        with nullcontext() if path.is_dir() else reading(path):
            # No name for the table here: what `table_source` has read of it can then be let go.
            return table_source(self.table(path, choices), str(path), choices)

    def original(self, path: Path, choices: Choices, *, may_link: bool) -> Original:
        """Return the stored table, to be written with other labels; raise if it cannot be."""
        if self.give_back is None:
            raise self.refusal(path)
        return original_table(path, self.table(path, choices), choices, self.give_back)


def _check_cells(path: Path, table: pa.Table) -> None:
    """Raise if a cell's text is so long that splitting it into words would take minutes."""
    for name, column in zip(table.column_names, table.itercolumns(), strict=True):
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            size = pc.max(pc.binary_length(column)).as_py() or 0
            if size > LONGEST_CELL:
                raise DataError(
                    f"{path} must hold cells of at most {LONGEST_CELL / 1e6:.0f} MB; one of column "
                    f"{name!r} has {size / 1e6:,.0f} MB. Cut it, or remove the column."
                )


def formats() -> list[Format | TableFormat]:
    """Return all data formats, those of plugins last, in the order tried on a folder."""
    added = plugins("formats")
    for name, plugin in added.items():
        if not isinstance(plugin, Format | TableFormat):
            raise DataError(
                f"a plugin of the group datassay.formats must name a Format or a TableFormat; "
                f"{name!r} names a {type(plugin).__name__}. Update or uninstall what adds it."
            )
    built_in = [module.FORMAT for module in modules_in("datassay.data.formats")]
    return sorted([*built_in, *added.values()], key=lambda f: f.asked_last)


def suffixes(*, of_tables: bool = False) -> tuple[str, ...]:
    """Return the suffixes of files that can be read, in lower case, with the dot."""
    return tuple(s for f in formats() if f.is_table or not of_tables for s in f.suffixes)


def known_format(path: Path) -> tuple[Path, Format | TableFormat]:
    """Return the file or folder to read and its format; raise if the format is unknown."""
    # A folder that datassay apply made stands for the file in it.
    if path.is_dir() and (file := given_back_file(path)):
        path = file
    if path.is_dir():
        for folder_format in formats():
            if folder_format.is_folder and folder_format.is_folder(path):
                return path, folder_format
        contents = "; ".join(f.holds for f in formats() if f.holds)
        raise DataError(
            f"a folder must hold data of a known format ({contents}); {path} holds none of these. "
            "Check the path."
        )
    name = path.name.lower()
    matches = [(len(s), f) for f in formats() for s in f.suffixes if name.endswith(s)]
    if matches:
        return path, max(matches, key=lambda pair: pair[0])[1]
    raise DataError(
        f"a file must end in {', '.join(suffixes())}; got {path}. Convert it, or pass its arrays "
        "as (x, y)."
    )
