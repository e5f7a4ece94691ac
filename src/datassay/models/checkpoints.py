"""State dicts in a file, at its top or inside a checkpoint; nothing is unpickled."""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from datassay.errors import ModelError, printable
from datassay.models.user_code import brief

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
REMEDY = (
    "Where the model is loaded, write it with safetensors.torch.save_model(model, "
    '"weights.safetensors") and give that file.'
)
DEEPEST = 4  # dictionaries inside each other
# Between a file and the keys of one of its state dicts, as in "weights.pt::ema".
NAMED = "::"
# Words of keys that say that weights are an average over the training, not where it ended.
AVERAGES = {"average", "averaged", "avg", "ema", "lawa", "moving", "polyak", "shadow", "swa"}
# What torch.optim.swa_utils.AveragedModel counts besides the weights.
COUNTER = "n_averaged"


@dataclass(frozen=True, slots=True)
class StateDict:
    """One state dict of a file, as a network of certain names takes it."""

    place: str  # keys that lead to it, such as "states.ema"; empty at the top
    prefix: str  # taken off all names, such as "module." of nn.DataParallel
    tensors: dict[str, Tensor]
    is_average: bool = False  # its keys say that it is averaged over the training
    others: tuple[str, ...] = ()  # places of further ones that fit the network as well

    @property
    def told(self) -> str:
        """Which one it is, in words; empty of the whole file as it is."""
        parts = [f"state dict {self.place!r}"] if self.place else []
        parts += [f"names without {self.prefix!r}"] if self.prefix else []
        return printable(", ".join(parts))


def file_and_place(path: Path) -> tuple[Path, str]:
    """A file of weights, and the keys of the state dict that the user named, as "states.ema"."""
    file, mark, position = str(path).rpartition(NAMED)
    return (Path(file), position) if mark and not path.exists() else (path, "")


def state_dicts(path: Path) -> list[StateDict]:
    """All state dicts that a file holds, at least one, or the one named; those at the top first."""
    # Dictionaries of tensors alone, as optimisers do not have them by name.
    file, named = file_and_place(path)
    held = plain_values(file)
    keyed = sorted(_dictionaries(held, ()), key=lambda pair: len(pair[0]))
    if not keyed:
        if names := pickled(held):
            raise ModelError(
                f"{file} must be {RULE}; it holds more than tensors ({names[0]}). {REMEDY}"
            )
        raise ModelError(
            f"{file} must hold a state dict of tensors; got {type(held).__name__}. Save "
            "model.state_dict() alone."
        )
    results = [
        StateDict(".".join(keys), "", tensors, COUNTER in tensors or any(map(_is_average, keys)))
        for keys, tensors in keyed
    ]
    if not named:
        return results
    chosen = [one for one in results if one.place == named]
    if not chosen:
        positions = ", ".join(repr(one.place) for one in results if one.place)
        raise ModelError(
            f"{file} must hold the state dict {named!r}; it holds "
            f"{printable(positions) or 'one alone, without a name'}. Name one as {file}{NAMED}KEY, "
            f"or leave {NAMED} out."
        )
    return chosen


def fitting(results: Iterable[StateDict], wanted: Iterable[set[str]]) -> StateDict:
    """The state dict whose names are those of a network, prefixes of wrappers taken off."""
    # The one with most of the names wanted; of these none that is averaged over the training, where
    # there is another; then the one with fewest further names, and the first.
    names = list(wanted)
    candidates = [one for each in results for one in _without_prefix(each, names)]

    def common(one: StateDict) -> int:
        return max(len(one.tensors.keys() & w) for w in names)

    def misfit(one: StateDict) -> tuple[int, bool, int, bool]:
        others = min(len(one.tensors.keys() ^ w) for w in names)
        return (-common(one), one.is_average, others, bool(one.prefix))

    best = min(candidates, key=misfit)
    positions = dict.fromkeys(one.place for one in candidates if common(one) == common(best))
    return replace(best, others=tuple(position for position in positions if position != best.place))


def _without_prefix(state: StateDict, wanted: list[set[str]]) -> Iterator[StateDict]:
    """The state dict as it is, and without what stands before all of its names."""
    yield state
    held = {name: t for name, t in state.tensors.items() if name != COUNTER}
    if not held:
        return
    first, *others = held
    positions = [i + 1 for i, letter in enumerate(first) if letter == "."]
    for end in positions:
        prefix = first[:end]
        if all(name.startswith(prefix) for name in others) and any(
            first[end:] in w for w in wanted
        ):
            short = {name[end:]: t for name, t in held.items()}
            yield replace(state, prefix=prefix, tensors=short)


def _is_average(key: str) -> bool:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", key)
    return bool(AVERAGES & set(re.split("[^a-z]+", words.lower())))


def _dictionaries(
    held: object, keys: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], dict[str, Tensor]]]:
    """Dictionaries of tensors alone, under names, with the keys that lead to them."""
    if not isinstance(held, dict) or not held or len(keys) > DEEPEST:
        return
    if all(isinstance(key, str) and isinstance(t, Tensor) for key, t in held.items()):
        yield keys, dict(held)
        return
    for key, inner in held.items():
        if isinstance(key, str):
            yield from _dictionaries(inner, (*keys, key))


def plain_values(path: Path) -> object:
    """What a file holds; nothing is unpickled but tensors and plain values."""
    # What else was pickled, such as settings, is a `StandIn` that holds nothing.
    rule = f"{path} must be {RULE}"
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise ModelError(f"{rule}; it is no regular file. {REMEDY}")
    try:
        if path.suffix.lower() == ".safetensors":
            return load_file(path)
        _check_archive(path)
        with stood_in(path):
            return torch.load(path, map_location="cpu", weights_only=True)
    except ModelError:
        raise
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{rule}; reading it raised {brief(error)} {REMEDY}") from error
    except Exception as error:
        # Not torch's words: they advise to unpickle.
        match = re.search(r"GLOBAL ([\w.]+)", str(error))
        more = f" ({printable(match[1])})" if match else ""
        raise ModelError(
            f"{rule}; it is damaged, or holds more than tensors{more}. {REMEDY}"
        ) from error


def _check_archive(path: Path) -> None:
    """Refuse an archive whose checksums fail, which torch does not look at, or that is a bomb."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            held = sum(entry.file_size for entry in archive.infolist())
            if held > path.stat().st_size or archive.testzip():  # torch does not compress
                raise ValueError(path)


# No class of a file is looked up or imported. torch's own reader of weights (`weights_only=True`)
# calls nothing that it does not know; it is given an empty class for each further name, so whatever
# the file wants called, with whatever arguments, makes an empty object.


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
    """Names of the classes that a value, however deep, holds stand-ins for."""
    if isinstance(held, StandIn):
        return [printable(type(held).__name__)]
    inner = held.values() if isinstance(held, dict) else held
    return [n for one in inner for n in pickled(one)] if isinstance(held, CONTAINERS) else []


def is_harmless(name: str) -> bool:
    """Whether settings may be made of it: of the standard library by a list, of others always."""
    package, _, rest = name.partition(".")
    inner = rest.removeprefix("_local.") if package == "pathlib" else rest  # Python 3.13
    return package not in sys.stdlib_module_names or inner in STANDARD.get(package, ())


def _class(name: str) -> Any:
    """An empty class that torch takes for the one of this name."""
    module, _, own = name.rpartition(".")
    kind = PLAIN.get(name, StandIn)
    return type(own, (kind,), {"__module__": module, "__qualname__": own})
