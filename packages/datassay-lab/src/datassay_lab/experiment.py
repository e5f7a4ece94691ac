"""Experiment: a statement, its measurement, and one number that decides whether it holds."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from datassay.errors import SettingError
from datassay_lab.curves import Plot

KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


@dataclass(frozen=True, slots=True)
class Experiment:
    """One statement of the course, as a runnable experiment; its texts are those of course.toml."""

    name: str  # name on the command line: that of its function, with hyphens
    statement: str  # the statement, in one sentence
    formula: str  # its equations, one per line, in Unicode
    look_for: str  # what the figures show when the statement holds, and what breaks it
    question: str  # to answer before the result is looked at
    what_if: Sequence[str]  # NAME=VALUE of each parameter to change
    expected: str  # what happens then
    exercise: str  # the slide's
    source: str  # class of S2 and original paper
    module: str  # dotted name of the module with its function, and one that draws its figures
    # (title, alt text) of each figure, and "wide" where it takes the page's width
    figures: Sequence[Sequence[str]] = ()

    @property
    def run(self) -> Callable[..., Any]:
        """Function of keyword parameters with defaults, among them `seed` and `progress`.

        It returns a frozen dataclass of arrays, numbers and texts with an `agreement`, and raises
        SettingError where a parameter is out of range.
        """
        return getattr(import_module(self.module), self.name.replace("-", "_"))

    @property
    def plots(self) -> Callable[[Any], tuple[Plot, ...]]:
        """Function of that result: its figures."""
        return getattr(import_module(self.module), f"{self.name.replace('-', '_')}_plots")

    @property
    def defaults(self) -> dict[str, Any]:
        """Name of each parameter but `progress` → default, in the function's order."""
        signature = inspect.signature(self.run)
        return {n: p.default for n, p in signature.parameters.items() if n != "progress"}

    def parse(self, texts: Iterable[str]) -> dict[str, Any]:
        """Parse NAME=VALUE texts in the type of each default; raise SettingError if it fails."""
        # Several numbers are separated by commas.
        defaults, values = self.defaults, {}
        for text in texts:
            name, equals, value = text.partition("=")
            if not equals or name not in defaults:
                offered = ", ".join(f"{n}={_show(v)}" for n, v in defaults.items())
                raise SettingError(
                    f"set must be NAME=VALUE with a parameter of {self.name} ({offered}); "
                    f"got {text!r}."
                )
            try:
                values[name] = _parse_value(value, defaults[name])
            except ValueError as error:
                raise SettingError(
                    f"{name} must be {kind_of(defaults[name])}; got {value!r}."
                ) from error
        return values


def kind_of(default: Any) -> str:
    """Return the type of a parameter in words: "a whole number", "numbers separated by commas"."""
    if isinstance(default, tuple):
        return f"{KINDS[type(default[0])].removeprefix('a ')}s separated by commas"
    return KINDS[type(default)]


def _parse_value(text: str, default: Any) -> Any:
    if isinstance(default, tuple):
        return tuple(_parse_value(part, default[0]) for part in text.split(","))
    if not isinstance(default, bool):
        return type(default)(text)
    if text.lower() not in {"true", "false"}:
        raise ValueError(text)
    return text.lower() == "true"


def _show(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
