"""Fitted models in one safetensors file: arrays, and the rest as JSON in its head; no code."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from datassay.errors import ModelError, SettingError, printable
from datassay.store.atomic import write_whole

# What a folder of results calls its model.
NAME = "model.safetensors"
POLYNOMIAL = "polynomial.safetensors"
# What reading a file that is damaged, or of another kind, may raise.
FAILURES = (OSError, SafetensorError, LookupError, TypeError, ValueError, AttributeError)


def write_model(
    path: str | Path, file_format: str, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]
) -> None:
    """Write arrays and facts to a model file, atomically and reproducibly."""
    # file_format: "datassay KIND". One key in the head: safetensors writes several in random order.
    contiguous = {name: np.asarray(values, order="C") for name, values in arrays.items()}
    content = save(contiguous, {file_format: json.dumps(facts, allow_nan=False)})
    try:
        write_whole(Path(path), lambda file: file.write(content))
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split())
        raise SettingError(f"path must be writable; {path}: {reason}.") from error


def read_model(path: str | Path) -> tuple[str, dict[str, np.ndarray], dict[str, Any]]:
    """Return the format, arrays and facts of a model file; see `readable` for errors."""
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata() or {}
        file_format = next((name for name in metadata if name.startswith("datassay ")), None)
        if file_format is None:
            raise ValueError("it holds something else.")
        arrays = {name: file.get_tensor(name) for name in file.keys()}
        return file_format, arrays, json.loads(metadata[file_format])


@contextmanager
def readable(path: str | Path, commands: str) -> Iterator[None]:
    """Turn any error of reading a model file into ModelError."""
    # commands: which write such files, for the message.
    try:
        yield
    except ModelError:
        raise
    except FAILURES as error:
        lines = str(error).strip().splitlines() or ["no message"]
        reason = printable(f"{type(error).__name__}: {lines[0].rstrip('.')}.")
        raise ModelError(
            f"{path} must be a file that datassay {commands} wrote; reading it raised {reason} Fit "
            "again, or give another."
        ) from error
