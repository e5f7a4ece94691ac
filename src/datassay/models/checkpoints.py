"""State dicts in a file, at its top or inside a checkpoint; nothing is unpickled."""

import re
import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
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
    """One state dict of a file, with names as a certain network has them."""

    place: str  # keys that lead to it in the file, such as "states.ema"; empty at the top
    prefix: str  # removed from all names, such as "module." of nn.DataParallel
    tensors: dict[str, Tensor]
    is_average: bool = False  # whether its keys say that it is averaged over the training
    other_places: tuple[str, ...] = ()  # of further state dicts that fit the network as well

    @property
    def description(self) -> str:
        """Which of the file's state dicts this is, in words; empty where it is the whole file."""
        parts = []
        if self.place:
            parts = [f"state dict {self.place!r}"]
        if self.prefix:
            parts += [f"names without {self.prefix!r}"]
        return printable(", ".join(parts))


def file_and_place(path: Path) -> tuple[Path, str]:
    """Return ("weights.pt", "states.ema") from "weights.pt::states.ema"; keys may be ""."""
    file, mark, keys = str(path).rpartition(NAMED)
    if mark and not path.exists():
        return (Path(file), keys)
    return (path, "")


def state_dicts(path: Path) -> list[StateDict]:
    """Return all state dicts of a file, those at the top first, or the one that `path` names."""
    # They are dictionaries of tensors alone by name; an optimiser's state is none.
    file, requested = file_and_place(path)
    content = plain_values(file)
    by_depth = sorted(_find_dictionaries(content, ()), key=lambda pair: len(pair[0]))
    if not by_depth:
        classes = stand_in_names(content)
        if classes:
            raise ModelError(
                f"{file} must be {RULE}; it holds more than tensors ({classes[0]}). {REMEDY}"
            )
        raise ModelError(
            f"{file} must hold a state dict of tensors; got {type(content).__name__}. Save "
            "model.state_dict() alone."
        )
    results = [
        StateDict(".".join(keys), "", tensors, COUNTER in tensors or any(map(_is_average, keys)))
        for keys, tensors in by_depth
    ]
    if not requested:
        return results
    matching = [state for state in results if state.place == requested]
    if not matching:
        places = ", ".join(repr(state.place) for state in results if state.place)
        raise ModelError(
            f"{file} must hold the state dict {requested!r}; it holds "
            f"{printable(places) or 'one alone, without a name'}. Name one as {file}{NAMED}KEY, "
            f"or leave {NAMED} out."
        )
    return matching


def best_match(states: Iterable[StateDict], expected: Sequence[set[str]]) -> StateDict:
    """Return the state dict that best matches a network's names, without wrappers' prefixes."""
    # expected: sets of names, any of which will do. The one with most of these names; then prefer
    # weights that are no average over the training, then the fewest other names, then the first.
    candidates = [c for state in states for c in _strip_prefixes(state, expected)]

    def n_common(state: StateDict) -> int:
        return max(len(state.tensors.keys() & names) for names in expected)

    def misfit(state: StateDict) -> tuple[int, bool, int, bool]:
        n_different = min(len(state.tensors.keys() ^ names) for names in expected)
        return (-n_common(state), state.is_average, n_different, bool(state.prefix))

    closest = min(candidates, key=misfit)
    places = dict.fromkeys(c.place for c in candidates if n_common(c) == n_common(closest))
    return replace(closest, other_places=tuple(place for place in places if place != closest.place))


def _strip_prefixes(state: StateDict, expected: Sequence[set[str]]) -> Iterator[StateDict]:
    """Yield the state dict as it is, and without each dotted prefix that all its names share."""
    yield state
    tensors = {name: t for name, t in state.tensors.items() if name != COUNTER}
    if not tensors:
        return
    example, *other_names = tensors
    ends = [i + 1 for i, letter in enumerate(example) if letter == "."]
    for end in ends:
        prefix = example[:end]
        is_shared = all(name.startswith(prefix) for name in other_names)
        if is_shared and any(example[end:] in names for names in expected):
            stripped = {name[end:]: t for name, t in tensors.items()}
            yield replace(state, prefix=prefix, tensors=stripped)


def _is_average(key: str) -> bool:
    """Return whether a key, such as "ema" or "avgModel", has one of the words of AVERAGES."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", key)
    return bool(AVERAGES & set(re.split("[^a-z]+", words.lower())))


def _find_dictionaries(
    content: object, keys: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], dict[str, Tensor]]]:
    """Yield (keys that lead to it, dictionary) for each dictionary of tensors inside."""
    if not isinstance(content, dict) or not content or len(keys) > DEEPEST:
        return
    if all(isinstance(key, str) and isinstance(t, Tensor) for key, t in content.items()):
        yield keys, dict(content)
        return
    for key, value in content.items():
        if isinstance(key, str):
            yield from _find_dictionaries(value, (*keys, key))


def plain_values(path: Path) -> object:
    """Read what a file holds; only tensors and plain values are unpickled."""
    # Any other pickled object, such as settings, becomes a `StandIn` that holds nothing.
    rule = f"{path} must be {RULE}"
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise ModelError(f"{rule}; it is no regular file. {REMEDY}")
    try:
        if path.suffix.lower() == ".safetensors":
            return load_file(path)
        _check_archive(path)
        with allow_stand_ins(path):
            return torch.load(path, map_location="cpu", weights_only=True)
    except ModelError:
        raise
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{rule}; reading it raised {brief(error)} {REMEDY}") from error
    except Exception as error:
        # Without torch's own message, which advises to unpickle.
        match = re.search(r"GLOBAL ([\w.]+)", str(error))
        culprit = ""
        if match:
            culprit = f" ({printable(match[1])})"
        raise ModelError(
            f"{rule}; it is damaged, or holds more than tensors{culprit}. {REMEDY}"
        ) from error


def _check_archive(path: Path) -> None:
    """Raise ValueError for an archive with a wrong checksum (torch checks none) or a zip bomb."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            n_bytes = sum(entry.file_size for entry in archive.infolist())
            if n_bytes > path.stat().st_size or archive.testzip():  # torch does not compress
                raise ValueError(path)


# No class of a file is looked up or imported. torch's own reader of weights (`weights_only=True`)
# calls nothing that it does not know; it is given an empty class for each further name, so whatever
# the file wants called, with whatever arguments, makes an empty object.


class StandIn:
    """An empty object in place of a pickled one, of which only the name of its class is kept."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        """Create an empty object, whatever the arguments."""
        return object.__new__(cls)

    def __init__(self, *_: Any, **__: Any):
        pass

    def __setstate__(self, state: Any) -> None:
        """Ignore the pickled state."""


class _Dictionary(StandIn):
    """A plain dictionary in place of a defaultdict; it takes the pickled items."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        return {}


class _List(StandIn):
    """A plain list in place of a deque."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        return []


CONTAINERS = (dict, list, tuple)
PLAIN = {"collections.defaultdict": _Dictionary, "collections.deque": _List}


@contextmanager
def allow_stand_ins(path: Path) -> Iterator[None]:
    """Let `torch.load` read pickled classes as empty ones, while the context lasts."""
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
    with torch.serialization.safe_globals([_make_class(name) for name in names]):
        yield


def stand_in_names(value: Any) -> list[str]:
    """Return the names of pickled classes that were read as empty ones, at any depth."""
    if isinstance(value, StandIn):
        return [printable(type(value).__name__)]
    if not isinstance(value, CONTAINERS):
        return []
    items = value.values() if isinstance(value, dict) else value
    return [n for item in items for n in stand_in_names(item)]


def is_harmless(name: str) -> bool:
    """Return whether a pickled class is of no standard module, or one that settings are made of."""
    package, _, path = name.partition(".")
    if package == "pathlib":
        path = path.removeprefix("_local.")  # Python 3.13
    return package not in sys.stdlib_module_names or path in STANDARD.get(package, ())


def _make_class(name: str) -> Any:
    """Return an empty class that torch's unpickler takes for the named one."""
    module, _, base = name.rpartition(".")
    kind = PLAIN.get(name, StandIn)
    return type(base, (kind,), {"__module__": module, "__qualname__": base})
