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


def checked(run: Callable[P, R]) -> Callable[P, R]:
    """A function of keywords that refuses values that break the rules in their annotations."""
    hints = get_type_hints(run, include_extras=True)
    wanted = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
    defaults = {name: p.default for name, p in inspect.signature(run).parameters.items()}

    @functools.wraps(run)
    def function(*args: P.args, **given: P.kwargs) -> R:
        for name, value in (defaults | given).items():
            for rule in wanted.get(name, ()):
                rule(name, value)
        return run(*args, **given)

    return function


def whole(least: int = 1) -> Rule:
    """Rule: a whole number, at least `least`."""
    return lambda name, value: rules.whole(name, value, least)


def positive(below: float = math.inf) -> Rule:
    """Rule: a number in (0, below)."""
    if below == math.inf:
        return lambda name, value: rules.positive(name, value, finite=True)
    return lambda name, value: rules.within(name, value, 0, below, "()")


def rising(least: float, count: int = 2) -> Rule:
    """Rule: a sweep of `count` numbers or more that increase from `least` or more."""

    def rule(name: str, values: Sequence[float]) -> None:
        holds = all(a < b for a, b in pairwise(values)) and len(values) >= count
        message = f"be {count} or more increasing numbers >= {least:g}"
        rules.require(holds and values[0] >= least, name, message, tuple(values))

    return rule


def rising_whole(least: int, count: int = 2) -> Rule:
    """Rule: as `rising`, of whole numbers."""

    def rule(name: str, values: Sequence[float]) -> None:
        rising(least, count)(name, values)
        for value in values:
            rules.whole(f"each of {name}", value, least)

    return rule


def one_of(allowed: Sequence[str]) -> Rule:
    """Rule: one of the words allowed."""
    return lambda name, value: rules.one_of(name, value, allowed)


share: Rule = rules.fraction


def refuse_if(wrong: object, message: str) -> None:
    """Raise SettingError with this message where several parameters do not go together."""
    if wrong:
        raise SettingError(message)
