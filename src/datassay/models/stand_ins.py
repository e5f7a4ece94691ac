"""Stand-ins for what a checkpoint pickles beside its tensors: settings, paths, dates.

No class of a file is looked up or imported. torch's own reader of weights (`weights_only=True`)
calls nothing that it does not know; it is given an empty class for each further name, so whatever
the file wants called, with whatever arguments, makes an empty object.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from datassay.errors import ModelError, printable

RULE = "a .safetensors file or a plain state dict of tensors"
# What settings are made of. All else of the standard library is refused although it would not be
# called: a file that asks for os.system is no checkpoint, and its owner should know.
STANDARD = {
    "argparse": {"Namespace"},
    "builtins": {"bool", "bytes", "dict", "float", "frozenset", "getattr", "int", "list", "object",
                 "range", "slice", "str", "tuple"},
    "collections": {"defaultdict", "deque"},
    "copyreg": {"_reconstructor"},
    "datetime": {"date", "datetime", "time", "timedelta", "timezone"},
    "decimal": {"Decimal"},
    "fractions": {"Fraction"},
    "functools": {"partial"},
    "pathlib": {"Path", "PosixPath", "PurePath", "PurePosixPath", "PureWindowsPath", "WindowsPath"},
    "types": {"SimpleNamespace"},
    "uuid": {"SafeUUID", "UUID"},
}  # fmt: skip


class StandIn:
    """An object that a file pickled, of which nothing is kept but the name of its class."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        """Empty, whatever it is made of."""
        return object.__new__(cls)

    def __init__(self, *_: Any, **__: Any):
        pass

    def __setstate__(self, state: Any) -> None:
        """Nothing of it is kept."""


class _Dictionary(StandIn):
    """For a defaultdict: a plain dictionary, which takes what it held."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        return {}


class _List(StandIn):
    """For a deque."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        return []


CONTAINERS = (dict, list, tuple)
PLAIN = {"collections.defaultdict": _Dictionary, "collections.deque": _List}


@contextmanager
def stood_in(path: Path) -> Iterator[None]:
    """Let `torch.load(path, weights_only=True)` read a file that pickles more than tensors."""
    try:
        names = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    except ValueError:  # of no archive: torch says what it is
        names = []
    for name in sorted(names):
        if not is_harmless(name):
            raise ModelError(
                f"{path} must be {RULE}; it holds more than tensors ({printable(name)}), which was "
                "not run. Take weights from somebody you trust, or write them with "
                'safetensors.torch.save_model(model, "weights.safetensors").'
            )
    with torch.serialization.safe_globals([_class(name) for name in names]):
        yield


def pickled(held: Any) -> list[str]:
    """Names of the classes that a value holds stand-ins for.

    Args:
        held: as `plain_values` gives it.

    Returns:
        Of all of them, in dictionaries and sequences as well; empty where it is plain.
    """
    if isinstance(held, StandIn):
        return [printable(type(held).__name__)]
    inner = held.values() if isinstance(held, dict) else held
    return [n for one in inner for n in pickled(one)] if isinstance(held, CONTAINERS) else []


def is_harmless(name: str) -> bool:
    """Whether settings may be made of it.

    Args:
        name: dotted, of a class or function.

    Returns:
        Of the standard library by a list; of other packages always, as no code of them is run.
    """
    package, _, rest = name.partition(".")
    inner = rest.removeprefix("_local.") if package == "pathlib" else rest  # Python 3.13
    return package not in sys.stdlib_module_names or inner in STANDARD.get(package, ())


def _class(name: str) -> Any:
    """An empty class that torch takes for the one of this name."""
    module, _, own = name.rpartition(".")
    kind = PLAIN.get(name, StandIn)
    return type(own, (kind,), {"__module__": module, "__qualname__": own})
