"""What the user says of a table's columns, and one column as it was read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa

from datassay.data.samples import Column
from datassay.data.source import Task
from datassay.errors import DataError
from datassay.optional import coalesce, inflect, select_rows, text_if
from datassay.results import result

SHOWN, NAMED = 5, 20  # rows and columns that an error names
Role = Literal["feature", "target", "ids", "source", "trusted", "groups", "time"]
ROLES: tuple[Role, ...] = get_args(Role)[1:]  # of columns that are no features
OF_SAMPLES = ("trusted", "groups", "time")  # those that are neither target nor names
QUOTE = 'In .csv, quote a text that reads as missing: "NA"'


@result
class ReadColumn:
    """One column as read."""

    column: Column
    values: np.ndarray | None = None  # [n] numbers with NaN, datetime64[us], or [n, m] of lists
    words: pa.LargeStringArray | None = None  # [n], nulls where they are missing
    is_missing: np.ndarray | None = None  # [n] bool, of a target with gaps, which is not read then
    problem: str = ""  # for which the table cannot be used
    remedy: str = ""
    reason: str = ""  # why our rules leave it out
    names_rows: bool = False  # whether that is so because its values name the rows
    warning: str = ""  # on strings that are dates or numbers
    decimal: str = ""  # the decimal mark of such numbers, where they show it
    is_ambiguous: bool = False  # whether their mark may be a thousands separator

    def take(self, rows: np.ndarray) -> "ReadColumn":
        """Return the column with these rows only, [m] positions."""
        values = select_rows(self.values, rows)
        words = None
        if self.words is not None:
            words = self.words.take(pa.array(rows))
        return replace(self, values=values, words=words)


def report_missing(column: Column, is_missing: np.ndarray) -> ReadColumn:
    """Return a column with its problem: values are missing; of a target which ones are."""
    column = replace(column, missing=int(is_missing.sum()))
    if column.read_as == "target" and not is_missing.all():
        return ReadColumn(column, is_missing=is_missing)
    problem = (
        f"column {column.name!r} must have no missing values; {is_missing.sum()} of "
        f"{len(is_missing)} are missing ({rows_of(is_missing)})"
    )
    return ReadColumn(column, problem=problem, remedy=f"Fill them in or drop those rows. {QUOTE}")


def rows_of(mask: np.ndarray) -> str:
    """Return the first row numbers where a mask is True as text, such as "rows 3, 17"."""
    rows = np.flatnonzero(mask)
    word = inflect(len(rows), "row", "rows")
    return f"{word} {', '.join(map(str, rows[:SHOWN]))}{text_if(len(rows) > SHOWN, ', ...')}"


@dataclass(frozen=True)
class Choices:
    """What a table's columns are for, and how the user wants them read."""

    target: str | None = None  # or several, joined; None: the one that is called so
    ids: Any = None  # None: row labels of pandas, else numbers; of arrays [n] names
    source: Any = None  # where each row came from, which is no feature; of arrays [n] names
    trusted: Any = None  # whose labels are known to be right; of arrays [n] bool
    task: Task | None = None
    groups: Any = None  # what stays together when samples are held out; of arrays [n] names
    time: Any = None  # when each sample was taken; of arrays [n] numbers or dates
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()  # features, though our rules would leave them out
    categorical: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    earlier: Mapping[str, Column] = field(default_factory=dict)  # of new rows: as first read
    decimal: str = ""  # mark of the file, for columns that leave it open
    finds_ids: bool = False  # whether a column that names the rows is taken for ids

    @property
    def roles(self) -> dict[str, Role]:
        """The columns that are no features, with what they are for."""
        columns: dict[Role, Any] = {role: getattr(self, role) for role in ROLES}
        return {column: role for role, column in columns.items() if isinstance(column, str)}

    @property
    def asides(self) -> set[str]:
        """The columns that are neither target, ids nor features."""
        return {c for c, role in self.roles.items() if role not in {"target", "ids"}}

    def targets(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names of several targets, split at commas; () if one column is meant."""
        if self.target is None or self.target in names or "," not in self.target:
            return ()
        return tuple(self.target.split(","))

    def form_of(self, name: str) -> str:
        """Return the number or date format of a column that was read before, or ""."""
        if name in self.earlier:
            return self.earlier[name].form
        return ""

    @property
    def any(self) -> bool:
        """Whether a column is named."""
        names = (self.target, *(getattr(self, option) for option in _OPTIONS))
        return bool(self.roles) or any(names)


_OPTIONS = ("drop", "keep", "categorical", "text")


def join_targets(target: Any) -> str | None:
    """Return one name, or several targets' names joined by commas, as a command has them."""
    if target is None or isinstance(target, str):
        return target
    names = names_of("target", target)
    if not names or len({*names}) < len(names) or (len(names) > 1 and "," in "".join(names)):
        raise DataError(
            f"target must name columns, each once, several without a comma; got {target!r}."
        )
    return ",".join(names)


def names_of(option: str, value: Any) -> tuple[str, ...]:
    """Return the column names of an option as a tuple; () for None; raise for other values."""
    names = coalesce(value, ())
    if isinstance(value, str):
        names = (value,)
    if isinstance(names, Iterable):
        names = tuple(names)
        if all(isinstance(name, str) for name in names):
            return names
    raise DataError(
        f"{option} must name columns of a table, as strings; got {value!r}. Pass text, such as "
        f"{str(value)[:80]!r}."
    )


def check_choices(choices: Choices, names: Sequence[str], table: str) -> None:
    """Raise if a choice names a column that is absent, or two choices contradict."""
    columns = set(names)
    options = dict[str, str](choices.roles)  # column → its role, or the option that names it
    for option in _OPTIONS:
        chosen_names = tuple(dict.fromkeys(getattr(choices, option)))
        unknown = [name for name in chosen_names if name not in columns]
        if unknown:
            raise DataError(
                f"{option} must name columns of {table}; it has no {abridge(unknown)}. Its columns "
                f"are {abridge(names)}."
            )
        for name in chosen_names:
            earlier = options.get(name)
            if earlier and not (earlier == "keep" and option != "drop"):
                raise DataError(
                    f"column {name!r} cannot be {earlier} and {option} at once. Name it once."
                )
            options[name] = option


def abridge(names: Sequence[str], between: str = ", ") -> str:
    """Return the first of some names, and how many there are, as text for an error."""
    n_names = len(names)
    visible = [name if name == name.strip() else repr(name) for name in names[:NAMED]]
    return between.join(visible) + text_if(n_names > NAMED, f", ... ({n_names:,} in all)")
