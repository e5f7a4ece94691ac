"""The manifest of a store: what run its contents belong to, written, read and compared."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import torch
from torch import Tensor, nn

from datassay.collect.jacobian.suitable import unwrapped
from datassay.collect.store.location import file_system, normal
from datassay.data.samples import SampleSet
from datassay.errors import DataError, SettingError

# Of values longer than this, messages give only the name.
SHOWN = 24


def digest(arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of named arrays: names, types, shapes and every byte.

    Args:
        arrays: of numbers or fixed-width strings.

    Returns:
        64 hexadecimal digits.
    """
    sha = hashlib.sha256()
    for name, array in arrays.items():
        sha.update(f"{name} {array.dtype} {array.shape} ".encode())
        sha.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return sha.hexdigest()


def digest_of_values(values: Mapping[str, object]) -> str:
    """SHA-256 of plain JSON values, whatever their order.

    Args:
        values: by name.

    Returns:
        64 hexadecimal digits.
    """
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def model_fingerprint(model: nn.Module) -> dict[str, object]:
    """A network's architecture as it prints, and its weights and buffers.

    Args:
        model: at the weights that count.

    Returns:
        Plain JSON values, one entry a cause.
    """
    model = unwrapped(model)
    state = {name: _values(t.detach().cpu()) for name, t in model.state_dict().items()}
    # A function kept in a module prints with its place in memory.
    return {"model": re.sub(r" at 0x[0-9a-f]+", "", str(model)), "weights": digest(state)}


def _values(tensor: Tensor) -> np.ndarray:
    """As NumPy holds them: bfloat16 it does not know, every value of it is one of float32."""
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def frozen_fingerprint(model: nn.Module) -> dict[str, object]:
    """Which of a network's parameters training leaves as they are.

    Args:
        model: with its requires_grad.

    Returns:
        Plain JSON values, one entry; none where all of them train.
    """
    named = unwrapped(model).named_parameters()
    frozen = [name for name, p in named if not p.requires_grad]
    return {"frozen tensors": frozen} if frozen else {}


def machine_fingerprint(model: nn.Module) -> dict[str, object]:
    """Library and machine facts that may change the last bits of a network's derivatives.

    Args:
        model: on its device.

    Returns:
        Plain JSON values, one entry a cause.
    """
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    return {
        "torch": torch.__version__,
        "device": device.type,
        "processor": torch.backends.cpu.get_cpu_capability(),
    }


def samples_fingerprint(samples: SampleSet | None) -> str:
    """Inputs, targets and ids of a set.

    Args:
        samples: the set, or None.

    Returns:
        64 hexadecimal digits, or "none".
    """
    if samples is None:
        return "none"
    ids = samples.ids if samples.ids.dtype.kind in "iuSU" else samples.ids.astype(str)
    return digest({"x": samples.x, "y": samples.y, "ids": ids})


def claim(
    location: str | Path,
    run: Mapping[str, object],
    file: str,
    unpack: Callable[[Any], dict[str, Any]],
    create: Callable[[], dict[str, Any]],
) -> dict[str, Any]:
    """The manifest of a store, created where there is none; that of another run is refused.

    Args:
        location: path or URL of the folder.
        run: what the contents belong to, plain JSON values.
        file: name of the manifest's file.
        unpack: as for `read_manifest`.
        create: writes the manifest of this run and returns it.

    Returns:
        The manifest; "run" is one of its entries.

    Raises:
        SettingError: the store belongs to another run, each difference named, or the folder is no
            store.
        DataError: the manifest is damaged, or can be neither read nor written.
    """
    manifest = read_manifest(location, file, unpack)
    if manifest is None:
        with writing(location):
            return create()
    if differing := differences(manifest["run"], run):
        raise SettingError(
            f"store must belong to this run; {location} differs in: {', '.join(differing)}. Name "
            "another store, or delete that one."
        )
    return manifest


def read_manifest(
    location: str | Path, file: str, unpack: Callable[[Any], dict[str, Any]]
) -> dict[str, Any] | None:
    """The manifest of a store.

    Args:
        location: path or URL of the folder.
        file: name of the manifest's file.
        unpack: manifest of the file's JSON value; may raise ValueError, LookupError, TypeError or
            AttributeError where that value is not one.

    Returns:
        The manifest, or None where there is no store yet.

    Raises:
        DataError: the manifest is damaged or cannot be read.
        SettingError: there is something else.
    """
    files, root = file_system(location)
    try:
        text = files.cat_file(f"{root}/{file}")
    except (FileNotFoundError, NotADirectoryError):
        _check_empty(files, root, file)
        return None
    except OSError as error:
        raise DataError(f"store must be readable; {location} is not: {error}.") from error
    try:
        return unpack(json.loads(text))
    except (ValueError, LookupError, TypeError, AttributeError):
        raise DataError(
            f"store must hold a whole manifest; {normal(location)}/{file} is damaged or not ours. "
            "Put the file back from a copy, name another store, or delete that one."
        ) from None


def _check_empty(files: fsspec.AbstractFileSystem, root: str, file: str) -> None:
    if files.isfile(root):
        raise SettingError(f"store must be a folder; {root} is a file. Name another.")
    # A first attempt to write the manifest that was killed leaves only these.
    others = [f for f in files.find(root) if not f.endswith((".part", ".partial"))]
    if others:
        raise SettingError(
            f"store must be an empty folder or one that an earlier run made; got {root}, which "
            f"holds {others[0].removeprefix(root + '/')} but no {file}. Name another folder."
        )


@contextmanager
def writing(location: str | Path) -> Iterator[None]:
    """Refuse a store that cannot be written to.

    Args:
        location: path or URL of the folder.

    Yields:
        Nothing; write inside the block.

    Raises:
        DataError: the file system refuses.
    """
    try:
        yield
    except OSError as error:
        raise DataError(
            f"store must be writable; {location} is not: {error}. Make room or allow writing "
            "there, then run the same again (finished work is kept), or name another store."
        ) from error


def differences(there: Mapping[str, object], here: Mapping[str, object]) -> list[str]:
    """The entries in which two manifests differ.

    Args:
        there: plain JSON values of the store.
        here: those of this run.

    Returns:
        One text an entry that differs, with both values where they are short.
    """
    texts = []
    for name in sorted({*there, *here}):
        if there.get(name) != here.get(name):
            shown = [json.dumps(values.get(name)) for values in (there, here)]
            short = max(map(len, shown)) <= SHOWN
            texts.append(f"{name} ({shown[0]} there, {shown[1]} here)" if short else name)
    return texts
