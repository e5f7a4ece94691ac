"""The rules that parameters of experiments share."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral, Real
from types import ModuleType

from datassay.errors import SettingError


def check_count(name: str, value: object, least: int = 1) -> None:
    """Refuse what is no whole number, or too small a one.

    Args:
        name: of the parameter.
        value: as given.
        least: smallest that makes sense.

    Raises:
        SettingError: it is not a whole number ≥ least.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise SettingError(f"{name} must be a whole number >= {least}; got {value!r}.")


def check_positive(name: str, value: object, below: float = math.inf) -> None:
    """Refuse what is no positive number, or too large a one.

    Args:
        name: of the parameter.
        value: as given.
        below: it must stay below this.

    Raises:
        SettingError: it is not a number in (0, below).
    """
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < float(value) < below:
        end = f" and < {below:g}" if below < math.inf else " and finite"
        raise SettingError(f"{name} must be a number > 0{end}; got {value!r}.")


def check_sizes(name: str, values: Sequence[float], least: float, count: int = 2) -> None:
    """Refuse a sweep that is too short, not increasing, or starts too low.

    Args:
        name: of the parameter.
        values: of the sweep.
        least: smallest value that makes sense.
        count: values that the experiment needs.

    Raises:
        SettingError: there are fewer than `count`, one is below `least`, or they do not increase.
    """
    rising = all(a < b for a, b in pairwise(values))
    if len(values) < count or not rising or not values[0] >= least:
        raise SettingError(
            f"{name} must be {count} or more increasing numbers >= {least:g}; "
            f"got {tuple(values)!r}."
        )


def check_counts(name: str, values: Sequence[float], least: int, count: int = 2) -> None:
    """Refuse a sweep of whole numbers that `check_sizes` refuses, or with fractions in it.

    Args:
        name: of the parameter.
        values: of the sweep.
        least: smallest value that makes sense.
        count: values that the experiment needs.

    Raises:
        SettingError: as `check_sizes`, or one is not a whole number.
    """
    check_sizes(name, values, least, count)
    for value in values:
        check_count(f"each of {name}", value, least)


def check_choice(name: str, value: object, allowed: Sequence[str]) -> None:
    """Refuse a word that is none of those allowed.

    Args:
        name: of the parameter.
        value: as given.
        allowed: the words.

    Raises:
        SettingError: it is another.
    """
    if value not in allowed:
        raise SettingError(f"{name} must be one of {', '.join(allowed)}; got {value!r}.")


def lab_library(name: str, what_for: str) -> ModuleType:
    """A module of the extra `lab`.

    Args:
        name: of the module.
        what_for: how the error names its use.

    Returns:
        The imported module.

    Raises:
        SettingError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise SettingError(
            f'{what_for} needs {name}, which is not installed; run pip install "datassay[lab]".'
        ) from error
