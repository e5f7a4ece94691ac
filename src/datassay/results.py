"""Base of all results: frozen dataclasses, compared by identity, with a short repr."""

from __future__ import annotations

import html
import os
from dataclasses import dataclass, fields
from typing import Any, TypeVar, dataclass_transform

import pyarrow as pa

from datassay.errors import SettingError

T = TypeVar("T")
LONGEST = 60  # characters of one value
MOST_SHOWN = 10  # rows of a table in a notebook


class Tabular:
    """A result with a table: also as a pandas frame, in a file, and shown in a notebook."""

    __slots__ = ()

    def to_table(self) -> pa.Table:
        """The result as an Arrow table; each class says what its rows are."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """The table as a pandas frame.

        Returns:
            Its index is the id where the table's first column is that; so it joins the user's
            frame, `frame.join(result.to_pandas())`.

        Raises:
            SettingError: pandas is not installed.
        """
        table = self.to_table()
        try:
            frame = table.to_pandas()
        except ImportError as error:
            raise SettingError(
                "to_pandas needs pandas, which is not installed; run pip install pandas. "
                "to_table() gives an Arrow table without it."
            ) from error
        return frame.set_index("id") if table.column_names[:1] == ["id"] else frame

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
        """The first rows, for notebooks."""
        table = self.to_table()
        first = table.slice(0, MOST_SHOWN)
        head = "".join(f"<th>{html.escape(_cut(name))}</th>" for name in first.column_names)
        rows = ["".join(f"<td>{_cell(v)}</td>" for v in row.values()) for row in first.to_pylist()]
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        more = f", the first {MOST_SHOWN} shown" if table.num_rows > MOST_SHOWN else ""
        caption = f"{type(self).__name__}: {table.num_rows:,} rows{more}"
        return (
            f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )


@dataclass_transform(eq_default=False, frozen_default=True)
def result(cls: type[T]) -> type[T]:
    """Make a frozen dataclass of arrays: compared by identity, arrays printed as dtype and shape.

    Args:
        cls: a class with annotated fields.

    Returns:
        The dataclass, with slots.
    """
    made = dataclass(frozen=True, slots=True, eq=False, repr=False)(cls)
    made.__repr__ = short  # pyright: ignore[reportAttributeAccessIssue]
    return made


def field_names(of: object) -> tuple[str, ...]:
    """Names of a result's fields, in order.

    Args:
        of: a result or its class.

    Returns:
        One name a field.
    """
    return tuple(f.name for f in fields(of))  # pyright: ignore[reportArgumentType]


def short(self: object) -> str:
    """One-line repr: plain values as they are, arrays as dtype and shape.

    Args:
        self: a dataclass instance.

    Returns:
        Such as "LeaveOneOut(held_out=float64[120, 3], rank=120, ...)".
    """
    shown = [f"{f.name}={_value(getattr(self, f.name))}" for f in fields(self) if f.repr]  # pyright: ignore[reportArgumentType]
    return f"{type(self).__name__}({', '.join(shown)})"


def _value(value: object) -> str:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and dtype is not None:
        return f"{str(dtype).removeprefix('torch.')}{list(shape)}" if shape else str(value)
    if isinstance(value, dict):
        return _cut("{" + ", ".join(f"{k!r}: {_value(v)}" for k, v in value.items()) + "}")
    if isinstance(value, tuple | list) and any(hasattr(v, "shape") for v in value):
        return f"{type(value).__name__} of {len(value)}"
    return _cut(repr(value))


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def _cell(value: Any) -> str:
    return html.escape(_cut(f"{value:.4g}" if isinstance(value, float) else str(value)))
