"""What the user says of columns, which wins over our rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from datassay.data.source import Task
from datassay.data.tables.read import Role
from datassay.errors import DataError

SHOWN = 20  # columns that an error names one by one


@dataclass(frozen=True)
class Choices:
    """What a table's columns are for, and how the user wants them read.

    Attributes:
        target: the column to predict; None: the last one that is neither `ids` nor `source`.
        ids: the column that names the rows (strings if any has leading zeros); None: the row
            labels of pandas where there are any, else they are numbered from 0. Of arrays, which
            have no columns, [n] names.
        source: the column that names where each row came from, which is no feature; None: there
            is none. Of arrays [n] names.
        task: what to predict; None: the target says.
        drop: columns left out, neither features nor shown.
        keep: features, though our rules would leave them out.
        categorical: read as categories, whatever they hold.
        text: read as texts.
    """

    target: str | None = None
    ids: Any = None
    source: Any = None
    task: Task | None = None
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    text: tuple[str, ...] = ()

    @property
    def roles(self) -> dict[str, Role]:
        """The columns that are no features, with what they are for."""
        named: dict[Role, Any] = {"target": self.target, "ids": self.ids, "source": self.source}
        return {column: role for role, column in named.items() if isinstance(column, str)}

    @property
    def any(self) -> bool:
        """Whether a column is named."""
        names = (self.target, *(getattr(self, option) for option in _OPTIONS))
        return bool(self.roles) or any(names)


_OPTIONS = ("drop", "keep", "categorical", "text")


def names_of(option: str, value: Any) -> tuple[str, ...]:
    """Columns that the user names."""
    # value: names; one may stand alone; None: no column.
    names = (value,) if isinstance(value, str) else () if value is None else value
    if isinstance(names, Iterable):
        names = tuple(names)
        if all(isinstance(name, str) for name in names):
            return names
    raise DataError(
        f"{option} must name columns of a table, as strings; got {value!r}. Pass a list of names."
    )


def check_choices(chosen: Choices, names: Sequence[str], table: str) -> None:
    """Refuse choices that no column of the table can follow."""
    known, seen = set(names), dict[str, str](chosen.roles)
    for option in _OPTIONS:
        given = tuple(dict.fromkeys(getattr(chosen, option)))
        if unknown := [name for name in given if name not in known]:
            raise DataError(
                f"{option} must name columns of {table}; it has no {some(unknown)}. Its columns "
                f"are {some(names)}."
            )
        for name in given:
            other = seen.get(name)
            if other and not (other == "keep" and option != "drop"):
                raise DataError(
                    f"column {name!r} cannot be {other} and {option} at once. Name it once."
                )
            seen[name] = option


def some(names: Sequence[str]) -> str:
    """Names for an error, the first SHOWN of them."""
    return ", ".join(names[:SHOWN]) + f", ... ({len(names):,} in all)" * (len(names) > SHOWN)
