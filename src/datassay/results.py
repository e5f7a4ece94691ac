"""Base of all results: frozen dataclasses, compared by identity, with a short repr."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypeVar, dataclass_transform

T = TypeVar("T")
LONGEST = 60  # characters of one value


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
