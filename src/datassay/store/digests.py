"""SHA-256, 64 hex digits: of files, of named arrays and of plain values."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest(arrays: Mapping[str, np.ndarray]) -> str:
    """Return the SHA-256 of named arrays: names, types, shapes, all bytes."""
    sha = hashlib.sha256()
    for name, array in arrays.items():
        sha.update(f"{name} {array.dtype} {array.shape} ".encode())
        sha.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return sha.hexdigest()


def digest_of_values(values: Mapping[str, object]) -> str:
    """Return the SHA-256 of plain JSON values, whatever their order."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
