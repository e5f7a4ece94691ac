"""Parameters of an experiment: read from its signature, set from text."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from datassay.errors import SettingError
from datassay_lab.experiment import Experiment

KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def defaults(experiment: Experiment) -> dict[str, Any]:
    """Default parameters of an experiment.

    Args:
        experiment: any.

    Returns:
        Name → default, in the function's order, without `progress`.
    """
    signature = inspect.signature(experiment.run)
    return {n: p.default for n, p in signature.parameters.items() if n != "progress"}


def parsed(experiment: Experiment, texts: Iterable[str]) -> dict[str, Any]:
    """Parse parameters written as text.

    Args:
        experiment: the experiment they belong to.
        texts: "name=value" each; several numbers are separated by commas.

    Returns:
        Name → value of the default's type.

    Raises:
        SettingError: the parameter does not exist, or the value has another type.
    """
    known, values = defaults(experiment), {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name not in known:
            offered = ", ".join(f"{n}={_shown(v)}" for n, v in known.items())
            raise SettingError(
                f"set must be NAME=VALUE with a parameter of {experiment.name} ({offered}); "
                f"got {text!r}."
            )
        values[name] = _value(name, value, known[name])
    return values


def kind_of(default: Any) -> str:
    """Type of a parameter in words.

    Args:
        default: default of the parameter.

    Returns:
        Such as "a whole number" or "numbers separated by commas".
    """
    if isinstance(default, tuple):
        return f"{KINDS[_type(default)].removeprefix('a ')}s separated by commas"
    return KINDS[_type(default)]


def _value(name: str, text: str, default: Any) -> Any:
    try:
        if isinstance(default, tuple):
            return tuple(_one(part, _type(default)) for part in text.split(","))
        return _one(text, _type(default))
    except ValueError as error:
        raise SettingError(f"{name} must be {kind_of(default)}; got {text!r}.") from error


def _one(text: str, kind: type) -> Any:
    if kind is bool and text.lower() not in {"true", "false"}:
        raise ValueError(text)
    return text.lower() == "true" if kind is bool else kind(text)


def _type(default: Any) -> type:
    return type(default[0]) if isinstance(default, tuple) else type(default)


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
