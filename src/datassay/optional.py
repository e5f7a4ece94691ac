"""Values and texts that may be absent: a default in their place, or nothing made of nothing."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


def coalesce(value: T | None, default: T) -> T:
    """Return a value, or the default where it is None; as COALESCE of SQL."""
    if value is None:
        return default
    return value


def map_optional(function: Callable[[T], R], value: T | None) -> R | None:
    """Return function(value), or None where the value is None."""
    if value is None:
        return None
    return function(value)


def select_rows(values: Any, rows: Any) -> Any:
    """Return `values[rows]`, or None where there are no values."""
    if values is None:
        return None
    return values[rows]


def drop_none(*values: T | None) -> list[T]:
    """Return those of the values that are not None, in their order."""
    return [value for value in values if value is not None]


def text_if(condition: object, text: str) -> str:
    """Return a part of a sentence if the condition holds, else nothing."""
    if condition:
        return text
    return ""


def inflect(amount: int, singular: str, plural: str) -> str:
    """Return the word that agrees with an amount: `inflect(1, "is", "are")` is "is"."""
    if amount == 1:
        return singular
    return plural


def read_entry(content: object, key: str) -> Any:
    """Return an entry of a JSON object; None where it is missing or the content is no object."""
    if isinstance(content, dict):
        return content.get(key)
    return None


def take_first(values: Iterable[T], default: T | None = None) -> T | None:
    """Return the first of some values, or the default where there is none."""
    return next(iter(values), default)


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Return a list or tuple as a tuple, and anything else as a tuple of one."""
    if isinstance(value, list | tuple):
        return tuple(value)
    return (value,)
