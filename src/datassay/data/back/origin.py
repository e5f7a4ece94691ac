"""Where samples came from: how they were read, and a digest of what was read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from datassay.data.back.changelog import FILES
from datassay.data.source import reading
from datassay.data.synthetic.builtin import BUILTINS


@dataclass(frozen=True, slots=True)
class Origin:
    """What is needed to read the same samples again, and to know them.

    Attributes:
        inputs: arguments of `load`, plain values; "data" is a built-in name or an absolute path.
        digest: from `source_digest`.
        noise: share of the labels that was flipped on purpose: the file has other labels.
    """

    inputs: dict[str, Any]
    digest: str
    noise: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for summary.json."""
        return asdict(self)


def source_digest(data: str | Path) -> str:
    """SHA-256 of a file's bytes, or of the names and bytes of all files of a folder.

    Args:
        data: a path, or a built-in name.

    Returns:
        64 hexadecimal digits; a built-in name stands for itself.

    Raises:
        DataError: a file cannot be read.

    Cost: one reading of everything.
    """
    if str(data) in BUILTINS:
        return f"built-in {data}"
    path = Path(data).expanduser()
    whole = hashlib.sha256()
    for file in _files(path):
        with reading(file), file.open("rb") as opened:
            one = hashlib.file_digest(opened, "sha256").hexdigest()
        if file == path:
            return one
        whole.update(f"{file.relative_to(path).as_posix()}\0{one}\n".encode())
    return whole.hexdigest()


def _files(path: Path) -> Iterator[Path]:
    """The file, or all files of a folder by name; hidden ones and our changelog are no data."""
    if not path.is_dir():
        yield path
        return
    seen = set()  # a link can lead back to a folder above it
    for folder, folders, names in os.walk(path, followlinks=True):
        seen.add(os.path.realpath(folder))
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and os.path.realpath(os.path.join(folder, name)) not in seen
        )
        files = [Path(folder) / name for name in sorted(names) if not name.startswith(".")]
        yield from (file for file in files if file.parent != path or file.name not in FILES)
