"""What is checked: the statement, by one number; parameters, `Annotated[int, whole(2)] = 40`."""

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, ParamSpec, TypeVar, get_type_hints

from datassay import rules
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


def check_args(run: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function of keywords so that it refuses values that break its annotations' rules."""
    hints = get_type_hints(run, include_extras=True)
    rules_of = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
    defaults = {name: p.default for name, p in inspect.signature(run).parameters.items()}

    @functools.wraps(run)
    def function(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, value in (defaults | kwargs).items():
            for rule in rules_of.get(name, ()):
                rule(name, value)
        return run(*args, **kwargs)

    return function


def whole(least: int = 1) -> Rule:
    """Return a rule: a whole number, at least `least`."""
    return lambda name, value: rules.integer(name, value, least)


def positive(below: float = math.inf) -> Rule:
    """Return a rule: a number in (0, below)."""
    if below == math.inf:
        return lambda name, value: rules.positive(name, value, finite=True)
    return lambda name, value: rules.in_interval(name, value, 0, below, "()")


def rising(least: float, count: int = 2) -> Rule:
    """Return a rule: a sweep of `count` numbers or more that increase from `least` or more."""

    def rule(name: str, values: Sequence[float]) -> None:
        holds = all(a < b for a, b in pairwise(values)) and len(values) >= count
        message = f"be {count} or more increasing numbers >= {least:g}"
        rules.require(holds and values[0] >= least, name, message, tuple(values))

    return rule


def rising_whole(least: int, count: int = 2) -> Rule:
    """Return a rule: as `rising`, of whole numbers."""

    def rule(name: str, values: Sequence[float]) -> None:
        rising(least, count)(name, values)
        for value in values:
            rules.integer(f"each of {name}", value, least)

    return rule


def one_of(allowed: Sequence[str]) -> Rule:
    """Return a rule: one of the words allowed."""
    return lambda name, value: rules.one_of(name, value, allowed)


share: Rule = rules.fraction


def refuse_if(condition: object, message: str) -> None:
    """Raise SettingError with this message if parameters do not go together."""
    if condition:
        raise SettingError(message)
