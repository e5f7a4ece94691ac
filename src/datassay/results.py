"""Base of all results: frozen dataclasses, compared by identity, that declare their columns."""

import html
import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from importlib import import_module
from typing import Any, TypeVar, dataclass_transform

import numpy as np
import pyarrow as pa

from datassay.errors import SettingError, install
from datassay.optional import text_if

T = TypeVar("T")
LONGEST = 60  # characters of one value
MOST_SHOWN = 10  # rows of a table in a notebook


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a column holds, stored in the metadata of its field in Arrow tables and Parquet files.

    Attributes:
        meaning: in words.
        unit: of the values; empty for names.
        sign: what a high value says, and what 0 is where that says something; may be empty.
        digits: significant ones that pages and terminals show; not in the metadata.
    """

    meaning: str
    unit: str = ""
    sign: str = ""
    digits: int = 4


@dataclass(frozen=True, slots=True)
class _Column:
    """The declaration of a column: the arguments of `column`, but for the default."""

    meaning: Meaning
    name: str
    joint: str | None
    values: Callable[[Any], Any] | None
    nan_is_null: bool


def column(
    meaning: str,
    *,
    unit: str = "",
    sign: str = "",
    digits: int = 4,
    name: str = "",
    joint: str | None = None,
    values: Callable[[Any], Any] | None = None,
    nan_is_null: bool = False,
    default: Any = MISSING,
) -> Any:
    """Define that a field of a result is a column of its table, in the order of the fields.

    Args:
        meaning: what it holds, in words.
        unit: of the values; empty for names.
        sign: what a high value says.
        digits: significant ones to show.
        name: of the column; empty: the field's.
        joint: its name in a table of all scores; None: the same; empty: it is left out there.
        values: result → the column's values; None: the field as it is, a list per row of [n, k].
        nan_is_null: whether nan, which nobody looked for, is null in the table.
        default: of the field.

    Returns:
        The dataclass field; its metadata holds the declaration.
    """
    column_meaning = Meaning(meaning, unit, sign, digits)
    declaration = _Column(column_meaning, name, joint, values, nan_is_null)
    return field(default=default, metadata={"column": declaration})


def sample_ids() -> Any:
    """Define the field `ids` of a result with a row per sample: its first column, `id`."""
    return column("the sample's id", name="id")


def columns_of(source: Any, *, joint: bool = False) -> dict[str, Meaning]:
    """Return what each column of a result's table holds, by the column's name."""
    return {name: f.metadata["column"].meaning for name, f in _find_columns(source, joint).items()}


def table_of(*results: Any, joint: bool = False) -> pa.Table:
    """Return one table with the columns of several results on the same rows."""
    columns: dict[str, Any] = {}
    meanings: dict[str, Meaning] = {}
    for source in results:
        for name, column_field in _find_columns(source, joint).items():
            if name not in columns:
                declaration = column_field.metadata["column"]
                if declaration.values is None:
                    values = getattr(source, column_field.name)
                else:
                    values = declaration.values(source)
                if declaration.nan_is_null:
                    values = pa.array(values, mask=np.isnan(values))
                if getattr(values, "ndim", 1) > 1:
                    columns[name] = values.tolist()
                else:
                    columns[name] = values
        meanings = columns_of(source, joint=joint) | meanings
    return with_meanings(pa.table(columns), meanings)


def _find_columns(source: Any, joint: bool) -> dict[str, Field]:
    """Return column name → dataclass field of a result, `ids` first."""
    # joint: whether the table is one of all scores, where a column may have another name or none.
    columns = {}
    candidates = ()
    if hasattr(source, "__dataclass_fields__"):
        candidates = fields(source)
    for f in sorted(candidates, key=lambda candidate: candidate.name != "ids"):
        declared = f.metadata.get("column")
        if declared is None or (joint and declared.joint == ""):
            continue
        name = declared.name or f.name
        if joint:
            name = declared.joint or name
        columns[name] = f
    return columns


def with_meanings(table: pa.Table, meanings: Mapping[str, Meaning]) -> pa.Table:
    """Return the table with what the named columns hold written into their metadata."""
    schema = []
    for entry in table.schema:
        meaning = meanings.get(entry.name)
        texts = {key: getattr(meaning, key, "") for key in ("meaning", "unit", "sign")}
        metadata = dict(entry.metadata or {})
        metadata |= {key: text for key, text in texts.items() if text}
        schema.append(entry.with_metadata(metadata) if metadata else entry)
    return table.cast(pa.schema(schema, table.schema.metadata))


def meaning_of(entry: pa.Field) -> Meaning:
    """Return what `with_meanings` wrote about a column; empty where it wrote nothing."""
    metadata = {key.decode(): value.decode() for key, value in (entry.metadata or {}).items()}
    return Meaning(*(metadata.get(key, "") for key in ("meaning", "unit", "sign")))


class Plotted:
    """A result with a figure."""

    __slots__ = ()

    def plot(self) -> Any:
        """Draw the result.

        Returns:
            A plotly.graph_objects.Figure: a curve where the result is one, else how its first
            numbers are spread. A notebook shows it; `.show()` opens it.

        Raises:
            SettingError: the result holds no numbers to draw.
        """
        # By name: results are an earlier step than figures.
        return import_module("datassay.report.result_plots").figure_of(self)


class Tabular(Plotted):
    """A result with a table: also as a pandas frame, in a file, and shown in a notebook."""

    __slots__ = ()

    def to_table(self) -> pa.Table:
        """Return the columns that the result's fields declare, as an Arrow table.

        Returns:
            What each column holds, its unit and its sign are in the metadata of its field.
        """
        return table_of(self)

    def to_pandas(self) -> Any:
        """Return the table as a pandas frame.

        Returns:
            Its index is the id where the table's first column is that; so it joins a frame whose
            index the ids are.

        Raises:
            SettingError: pandas is not installed.
        """
        table = self.to_table()
        try:
            frame = table.to_pandas()
        except ImportError as error:
            raise SettingError(
                f"to_pandas needs pandas, which is not installed; run {install('pandas')}. "
                "to_table() gives an Arrow table without it."
            ) from error
        if table.column_names[:1] == ["id"]:
            return frame.set_index("id")
        return frame

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result to one Parquet file, whole or not at all.

        Its table is the one that any reader of Parquet sees. What is no column is beside it as
        JSON; nothing is pickled.

        Args:
            path: of the file; only an earlier saved result is replaced.

        Raises:
            SettingError: the result holds a network, or the file cannot be written.
        """
        from datassay.saving import write_result  # takes pyarrow and torch: only where needed

        write_result(self, path)

    @classmethod
    def load(cls: type[T], path: str | os.PathLike[str]) -> T:
        """Read what `save` wrote.

        Args:
            path: of the file.

        Returns:
            A result with the same values.

        Raises:
            DataError: no saved result, of another class or version, or damaged.
        """
        from datassay.saving import read_result

        return read_result(cls, path)

    def _repr_html_(self) -> str:
        """Return the table's first rows as HTML, for notebooks."""
        table = self.to_table()
        top = table.slice(0, MOST_SHOWN)
        head = "".join(f"<th>{html.escape(_cut_line(name))}</th>" for name in top.column_names)
        rows = ["".join(f"<td>{_cell(v)}</td>" for v in row.values()) for row in top.to_pylist()]
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        note = text_if(table.num_rows > MOST_SHOWN, f", the first {MOST_SHOWN} shown")
        caption = f"{type(self).__name__}: {table.num_rows:,} rows{note}"
        return (
            f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )


@dataclass_transform(
    eq_default=False, frozen_default=True, field_specifiers=(field, column, sample_ids)
)
def result(cls: type[T]) -> type[T]:
    """Make a frozen dataclass of arrays: compared by identity, arrays printed as dtype and shape.

    Args:
        cls: a class with annotated fields.

    Returns:
        The dataclass, with slots.
    """
    built = dataclass(frozen=True, slots=True, eq=False, repr=False, weakref_slot=True)(cls)
    if "__repr__" not in vars(cls):
        built.__repr__ = short
    return built


def field_names(source: Any) -> tuple[str, ...]:
    """Return the names of a result's fields, in order."""
    return tuple(f.name for f in fields(source))


def short(self: Any) -> str:
    """Return a one-line repr: plain values as they are, arrays as dtype and shape."""
    texts = [f"{f.name}={_show(getattr(self, f.name))}" for f in fields(self) if f.repr]
    return f"{type(self).__name__}({', '.join(texts)})"


def _show(value: object) -> str:
    """Return a value's repr in one short line; of an array its dtype and shape."""
    shape = getattr(value, "shape", None)
    dtype = getattr(value, "dtype", None)
    if shape is not None and dtype is not None:
        if shape:
            return f"{str(dtype).removeprefix('torch.')}{list(shape)}"
        return str(value)
    if isinstance(value, dict):
        return _cut_line("{" + ", ".join(f"{k!r}: {_show(v)}" for k, v in value.items()) + "}")
    if isinstance(value, tuple | list) and any(hasattr(v, "shape") for v in value):
        return f"{type(value).__name__} of {len(value)}"
    return _cut_line(repr(value))


def _cut_line(text: str) -> str:
    """Return a text as one line of at most LONGEST characters."""
    line = " ".join(text.split())
    if len(line) <= LONGEST:
        return line
    return line[: LONGEST - 1] + "…"


def _cell(value: Any) -> str:
    """Return a value as the HTML of a table's cell, a float to four digits."""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return html.escape(_cut_line(text))
