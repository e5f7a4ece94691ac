"""What is checked: the statement, by one number; parameters, `Annotated[int, whole(2)] = 40`."""

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, Literal, ParamSpec, TypeVar, get_type_hints

from datassay.errors import SettingError

P = ParamSpec("P")
R = TypeVar("R")
Rule = Callable[[str, Any], None]
"""Takes a parameter's name and value; raises SettingError."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of theory and measurement: one number with a limit."""

    what: str  # what the number measures, with its unit; no full stop
    value: float  # the number in this run
    limit: float  # limit that it must keep for the statement to hold
    # "at most" for errors, "at least" for correlations, shares and margins
    kind: Literal["at most", "at least"] = "at most"

    @property
    def holds(self) -> bool:
        """Whether the value keeps the limit; False for NaN."""
        return self.value <= self.limit if self.kind == "at most" else self.value >= self.limit


def checked(run: Callable[P, R]) -> Callable[P, R]:
    """A function of keywords whose parameters keep the rules in their annotations.

    Args:
        run: the function; all its parameters have defaults.

    Returns:
        The same function, which raises SettingError where a value breaks its rule.
    """
    hints = get_type_hints(run, include_extras=True)
    rules = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
    defaults = {name: p.default for name, p in inspect.signature(run).parameters.items()}

    @functools.wraps(run)
    def function(*args: P.args, **given: P.kwargs) -> R:
        for name, value in (defaults | given).items():
            for rule in rules.get(name, ()):
                rule(name, value)
        return run(*args, **given)

    return function


def check_count(name: str, value: object, least: int = 1) -> None:
    """Raise SettingError unless a value is a whole number, at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise SettingError(f"{name} must be a whole number >= {least}; got {value!r}.")


def check_positive(name: str, value: object, below: float = math.inf) -> None:
    """Raise SettingError unless a value is a number in (0, below)."""
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < float(value) < below:
        end = f" and < {below:g}" if below < math.inf else " and finite"
        raise SettingError(f"{name} must be a number > 0{end}; got {value!r}.")


def check_sizes(name: str, values: Sequence[float], least: float, count: int = 2) -> None:
    """Raise SettingError unless values increase from `least` or more and are `count` or more."""
    increasing = all(a < b for a, b in pairwise(values))
    if len(values) < count or not increasing or not values[0] >= least:
        raise SettingError(
            f"{name} must be {count} or more increasing numbers >= {least:g}; "
            f"got {tuple(values)!r}."
        )


def whole(least: int = 1) -> Rule:
    """Rule: a whole number, at least `least`."""
    return lambda name, value: check_count(name, value, least)


def positive(below: float = math.inf) -> Rule:
    """Rule: a number in (0, below)."""
    return lambda name, value: check_positive(name, value, below)


def rising(least: float, count: int = 2) -> Rule:
    """Rule: a sweep of `count` numbers or more that increase from `least` or more."""
    return lambda name, values: check_sizes(name, values, least, count)


def rising_whole(least: int, count: int = 2) -> Rule:
    """Rule: as `rising`, of whole numbers."""

    def rule(name: str, values: Sequence[float]) -> None:
        check_sizes(name, values, least, count)
        for value in values:
            check_count(f"each of {name}", value, least)

    return rule


def one_of(allowed: Sequence[str]) -> Rule:
    """Rule: one of the words allowed."""

    def rule(name: str, value: object) -> None:
        if value not in allowed:
            raise SettingError(f"{name} must be one of {', '.join(allowed)}; got {value!r}.")

    return rule


def share(name: str, value: float) -> None:
    """Rule: above 0 and at most 1."""
    if not 0 < value <= 1:
        raise SettingError(f"{name} must be above 0 and at most 1; got {value!r}.")


def refuse_if(wrong: object, message: str) -> None:
    """Raise SettingError with this message where several parameters do not go together."""
    if wrong:
        raise SettingError(message)
