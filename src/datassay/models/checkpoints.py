"""State dicts in a file, at its top or inside a checkpoint; nothing is unpickled."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from datassay.errors import ModelError, printable
from datassay.models.stand_ins import RULE, pickled, stood_in
from datassay.models.user_code import brief

REMEDY = (
    "Where the model is loaded, write it with safetensors.torch.save_model(model, "
    '"weights.safetensors") and give that file.'
)
DEEPEST = 4  # dictionaries inside each other
# Between a file and the keys of one of its state dicts, as in "weights.pt::ema".
NAMED = "::"
# Words of keys that say that weights are an average over the training, not where it ended.
AVERAGES = {"average", "averaged", "avg", "ema", "lawa", "moving", "polyak", "shadow", "swa"}
# What torch.optim.swa_utils.AveragedModel counts beside the weights.
COUNTER = "n_averaged"


@dataclass(frozen=True, slots=True)
class StateDict:
    """One state dict of a file, as a network of certain names takes it.

    Attributes:
        place: keys that lead to it, such as "model" or "states.ema"; empty at the top.
        prefix: that was taken off all names, such as "module." of nn.DataParallel; mostly empty.
        tensors: name → tensor.
        is_average: whether its keys say that it is averaged over the training: "ema", "swa_model".
        others: places of further state dicts of the file that fit the network as well.
    """

    place: str
    prefix: str
    tensors: dict[str, Tensor]
    is_average: bool = False
    others: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """Which one it is, in words; empty of the whole file as it is."""
        parts = [f"state dict {self.place!r}"] if self.place else []
        parts += [f"names without {self.prefix!r}"] if self.prefix else []
        return printable(", ".join(parts))


def file_and_place(path: Path) -> tuple[Path, str]:
    """A file of weights, and which of its state dicts the user named.

    Args:
        path: of a file, with "::" and the keys of one of its state dicts or without.

    Returns:
        The file and the keys, such as "ema" or "states.ema"; empty where none is named.
    """
    file, mark, place = str(path).rpartition(NAMED)
    return (Path(file), place) if mark and not path.exists() else (path, "")


def state_dicts(path: Path) -> list[StateDict]:
    """All state dicts that a file holds, in its order, those at the top first.

    Args:
        path: a .safetensors file, or what torch saved; "weights.pt::ema" names one of those inside.

    Returns:
        At least one; dictionaries of tensors alone, as optimisers do not have them by name.

    Raises:
        ModelError: it cannot be read, holds no state dict, or none of the name given.
    """
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
    found = [
        StateDict(".".join(keys), "", tensors, COUNTER in tensors or any(map(_is_average, keys)))
        for keys, tensors in keyed
    ]
    if not named:
        return found
    chosen = [one for one in found if one.place == named]
    if not chosen:
        places = ", ".join(repr(one.place) for one in found if one.place)
        raise ModelError(
            f"{file} must hold the state dict {named!r}; it holds "
            f"{printable(places) or 'one alone, without a name'}. Name one as {file}{NAMED}KEY, or "
            f"leave {NAMED} out."
        )
    return chosen


def fitting(found: Iterable[StateDict], wanted: Iterable[set[str]]) -> StateDict:
    """The state dict whose names are those of a network, prefixes of wrappers taken off.

    Args:
        found: those of a file, the first preferred.
        wanted: names that would do, the first preferred.

    Returns:
        The one with most of the names wanted; of these none that is averaged over the training,
        where there is another; then the one with fewest further names, and the first.
    """
    names = list(wanted)
    candidates = [one for each in found for one in _without_prefix(each, names)]

    def common(one: StateDict) -> int:
        return max(len(one.tensors.keys() & w) for w in names)

    def misfit(one: StateDict) -> tuple[int, bool, int, bool]:
        others = min(len(one.tensors.keys() ^ w) for w in names)
        return (-common(one), one.is_average, others, bool(one.prefix))

    best = min(candidates, key=misfit)
    places = dict.fromkeys(one.place for one in candidates if common(one) == common(best))
    return replace(best, others=tuple(place for place in places if place != best.place))


def _without_prefix(found: StateDict, wanted: list[set[str]]) -> Iterator[StateDict]:
    """The state dict as it is, and without what stands before all of its names."""
    yield found
    held = {name: t for name, t in found.tensors.items() if name != COUNTER}
    if not held:
        return
    first, *others = held
    places = [i + 1 for i, letter in enumerate(first) if letter == "."]
    for end in places:
        prefix = first[:end]
        if all(name.startswith(prefix) for name in others) and any(
            first[end:] in w for w in wanted
        ):
            short = {name[end:]: t for name, t in held.items()}
            yield replace(found, prefix=prefix, tensors=short)


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
    """What a file holds; nothing is unpickled but tensors and plain values.

    Args:
        path: a .safetensors file, or what torch saved.

    Returns:
        As it was saved; what else was pickled, such as settings, is a `StandIn` that holds nothing.

    Raises:
        ModelError: it cannot be read, is damaged, or names what no data are made of.
    """
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
        found = re.search(r"GLOBAL ([\w.]+)", str(error))
        more = f" ({printable(found[1])})" if found else ""
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
