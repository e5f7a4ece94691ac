"""Checks that experiments share for their parameters."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral, Real
from types import ModuleType

from datassay.errors import SettingError


def check_count(name: str, value: object, least: int = 1) -> None:
    """Check that a value is a whole number and large enough.

    Args:
        name: of the parameter.
        value: as given.
        least: smallest allowed.

    Raises:
        SettingError: the value is not a whole number ≥ least.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise SettingError(f"{name} must be a whole number >= {least}; got {value!r}.")


def check_positive(name: str, value: object, below: float = math.inf) -> None:
    """Check that a value is a positive number below a limit.

    Args:
        name: of the parameter.
        value: as given.
        below: upper limit, excluded.

    Raises:
        SettingError: the value is not a number in (0, below).
    """
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < float(value) < below:
        end = f" and < {below:g}" if below < math.inf else " and finite"
        raise SettingError(f"{name} must be a number > 0{end}; got {value!r}.")


def check_sizes(name: str, values: Sequence[float], least: float, count: int = 2) -> None:
    """Check that a sweep increases, is long enough and starts high enough.

    Args:
        name: of the parameter.
        values: of the sweep.
        least: smallest value allowed.
        count: fewest values allowed.

    Raises:
        SettingError: there are fewer than `count` values, one is below `least`, or they do not
            increase.
    """
    rising = all(a < b for a, b in pairwise(values))
    if len(values) < count or not rising or not values[0] >= least:
        raise SettingError(
            f"{name} must be {count} or more increasing numbers >= {least:g}; "
            f"got {tuple(values)!r}."
        )


def check_counts(name: str, values: Sequence[float], least: int, count: int = 2) -> None:
    """As `check_sizes`, for whole numbers.

    Args:
        name: of the parameter.
        values: of the sweep.
        least: smallest value allowed.
        count: fewest values allowed.

    Raises:
        SettingError: as `check_sizes`, or a value is not a whole number.
    """
    check_sizes(name, values, least, count)
    for value in values:
        check_count(f"each of {name}", value, least)


def check_choice(name: str, value: object, allowed: Sequence[str]) -> None:
    """Check that a value is one of the words allowed.

    Args:
        name: of the parameter.
        value: as given.
        allowed: the words.

    Raises:
        SettingError: the value is another.
    """
    if value not in allowed:
        raise SettingError(f"{name} must be one of {', '.join(allowed)}; got {value!r}.")


def lab_library(name: str, what_for: str) -> ModuleType:
    """Import a library that few experiments need.

    Args:
        name: name of the module.
        what_for: what needs it, for the error message.

    Returns:
        The imported module.

    Raises:
        SettingError: the module is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise SettingError(
            f"{what_for} needs {name}, which is not installed; run pip install {name}."
        ) from error
