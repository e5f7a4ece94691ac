"""Which files of a folder we wrote: a manifest of their digests stands beside them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path

MANIFEST = ".datassay.json"


def written(folder: Path, part: str = "files") -> dict[str, str]:
    """What we wrote to a folder.

    Args:
        folder: any; need not exist.
        part: "files", all of them, or "latest", those that were written together last.

    Returns:
        File name → SHA-256 as we wrote it; empty where no manifest of ours stands.
    """
    try:
        files = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))[part]
        return {str(name): str(digest) for name, digest in files.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}


def write_manifest(folder: Path, earlier: Mapping[str, str]) -> None:
    """Write the manifest of a folder whose files were all written now.

    Args:
        folder: with the finished files.
        earlier: file name → digest of what will stand beside them.
    """
    latest = {path.name: sha256(path) for path in sorted(folder.iterdir())}
    made_by = f"datassay {version('datassay')}"
    kept = {"made_by": made_by, "files": {**earlier, **latest}, "latest": latest}
    text = json.dumps(kept, indent=1, ensure_ascii=False) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8")


def sha256(path: Path) -> str:
    """Of a file's bytes; "" of what is no regular file, a link for one."""
    if path.is_symlink() or not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def foreign(folder: Path, names: Iterable[str]) -> list[str]:
    """Files of these names that we did not write, or that were changed since.

    Args:
        folder: any; need not exist.
        names: of files.

    Returns:
        Those of the names.
    """
    ours = written(folder)
    there = [name for name in (*names, MANIFEST) if os.path.lexists(folder / name)]
    return [n for n in there if (sha256(folder / n) != ours.get(n) if n != MANIFEST else not ours)]
