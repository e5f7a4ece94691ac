"""State dicts in a file, at its top or inside a checkpoint; nothing is unpickled."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from datassay.errors import ModelError, printable
from datassay.models.user_code import brief

REMEDY = (
    "Where the model is loaded, write it with safetensors.torch.save_model(model, "
    '"weights.safetensors") and give that file.'
)
DEEPEST = 4  # dictionaries inside each other


@dataclass(frozen=True, slots=True)
class StateDict:
    """One state dict of a file, as a network of certain names takes it.

    Attributes:
        place: keys that lead to it, such as "model" or "states.ema"; empty at the top.
        prefix: that was taken off all names, such as "module." of nn.DataParallel; mostly empty.
        tensors: name → tensor.
    """

    place: str
    prefix: str
    tensors: dict[str, Tensor]

    @property
    def told(self) -> str:
        """Which one it is, in words; empty of the whole file as it is."""
        parts = [f"state dict {self.place!r}"] if self.place else []
        parts += [f"names without {self.prefix!r}"] if self.prefix else []
        return printable(", ".join(parts))


def state_dicts(path: Path) -> list[StateDict]:
    """All state dicts that a file holds, in its order, those at the top first.

    Args:
        path: a .safetensors file, or what torch saved.

    Returns:
        At least one; dictionaries of tensors alone, as optimisers do not have them by name.

    Raises:
        ModelError: it cannot be read, holds more than tensors and plain values, or no state dict.
    """
    held = plain_values(path)
    found = sorted(_dictionaries(held, ()), key=lambda pair: len(pair[0]))
    if not found:
        raise ModelError(
            f"{path} must hold a state dict of tensors; got {type(held).__name__}. Save "
            "model.state_dict() alone."
        )
    return [StateDict(".".join(keys), "", tensors) for keys, tensors in found]


def fitting(found: Iterable[StateDict], wanted: Iterable[set[str]]) -> StateDict:
    """The state dict whose names are those of a network, prefixes of wrappers taken off.

    Args:
        found: those of a file, the first preferred.
        wanted: names that would do, the first preferred.

    Returns:
        The one with most of the names wanted, and then fewest others.
    """
    names = list(wanted)
    candidates = [one for each in found for one in _without_prefix(each, names)]

    def misfit(one: StateDict) -> tuple[int, int, int]:
        own = one.tensors.keys()
        common = max(len(own & w) for w in names)
        return (-common, min(len(own ^ w) for w in names), bool(one.prefix))

    return min(candidates, key=misfit)


def _without_prefix(found: StateDict, wanted: list[set[str]]) -> Iterator[StateDict]:
    """The state dict as it is, and without what stands before all of its names."""
    yield found
    first, *others = found.tensors
    places = [i + 1 for i, letter in enumerate(first) if letter == "."]
    for end in places:
        prefix = first[:end]
        if all(name.startswith(prefix) for name in others) and any(
            first[end:] in w for w in wanted
        ):
            yield StateDict(
                found.place, prefix, {name[end:]: t for name, t in found.tensors.items()}
            )


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
        As it was saved.

    Raises:
        ModelError: it cannot be read, is damaged, or holds more than tensors and plain values.
    """
    rule = f"{path} must be a .safetensors file or a plain state dict of tensors"
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise ModelError(f"{rule}; it is no regular file. {REMEDY}")
    try:
        if path.suffix.lower() == ".safetensors":
            return load_file(path)
        _check_archive(path)
        return torch.load(path, map_location="cpu", weights_only=True)
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
