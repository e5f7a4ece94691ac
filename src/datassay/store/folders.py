"""Folders of results: all files replaced or none, and only those that we wrote.

`.datassay.json` beside the files lists the digest of each that we wrote. A new folder of results
appears by one rename. In a folder that exists, each file moves into place and the one that stood
there moves aside; the manifest moves last, which makes it final. Before that, whoever finds the
staging folder, this process after a failure or the next run after a kill, puts everything back.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path

from datassay.errors import SettingError
from datassay.store.atomic import (
    MANIFEST,
    NEW,
    OLD,
    PREFIX,
    list_moved_folders,
    lock_if_free,
    locked,
    remove,
    uninterrupted,
)


def written(folder: Path, part: str = "files") -> dict[str, str]:
    """File name → SHA-256 of what we wrote to a folder: all "files", or the "latest" together."""
    try:
        files = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))[part]
        return {str(name): str(digest) for name, digest in files.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}


def write_manifest(folder: Path, earlier: Mapping[str, str]) -> None:
    """The manifest of a folder of finished files; `earlier` will stand with them."""
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
    """Those of the names that stand there and that we did not write, or that were changed since."""
    ours = written(folder)
    there = [name for name in (*names, MANIFEST) if os.path.lexists(folder / name)]
    return [n for n in there if (sha256(folder / n) != ours.get(n) if n != MANIFEST else not ours)]


def place(folder: Path, out: Path, overwrite: bool, stale: Iterable[str] = ()) -> None:
    """Move the new files of a staging folder to `out`, and stale ones away, all of them or none."""
    # overwrite: whether files that we did not write may be replaced.
    with uninterrupted():
        if folder.parent != out:
            os.rename(folder / NEW, out)
            return
        with locked(out):
            names = [path.name for path in sorted((folder / NEW).iterdir())]
            if not overwrite:
                refuse_foreign(out, names)
            try:
                for name in stale:
                    os.replace(out / name, folder / OLD / name)
                # The page comes after its tables, the manifest last of all.
                for name in sorted(names, key=lambda n: (n == MANIFEST, n == "index.html")):
                    if os.path.lexists(out / name):
                        os.replace(out / name, folder / OLD / name)
                    os.replace(folder / NEW / name, out / name)
            except BaseException:
                _put_back(folder, out)
                raise


def refuse_foreign(out: Path, names: list[str]) -> None:
    """Refuse to replace files of these names that we did not write, or that were changed since."""
    if others := foreign(out, names):
        raise SettingError(
            f"out must not replace files that datassay did not write, or that were changed since; "
            f"{out} holds {others[0]}. Choose another folder, move it away, or give --overwrite."
        )


def heal(parent: Path) -> None:
    """Undo what a killed process left half done in a folder, and remove its leftovers."""
    # What is not surely ours, or belongs to a process that lives, stays.
    if not any(parent.glob(f"{PREFIX}*")):
        return
    with uninterrupted(), locked(parent):
        for folder in sorted(parent.glob(f"{PREFIX}*")):
            if (lock := lock_if_free(folder)) < 0:
                continue
            try:
                if _is_ours(folder):
                    _put_back(folder, parent)
                    remove(folder)
            finally:
                os.close(lock)


def _put_back(folder: Path, out: Path) -> None:
    """Put everything back as it was where the new manifest, or folder, is not in its place."""
    new, old = folder / NEW, folder / OLD
    is_open = (new / MANIFEST).is_file()
    entries = list(old.iterdir()) if is_open else list_moved_folders(folder)
    latest = written(new, "latest")
    moved = {n: digest for n, digest in latest.items() if not os.path.lexists(new / n)}
    for name in (path.name for path in entries):
        if os.path.lexists(out / name) and sha256(out / name) != moved.get(name):
            raise SettingError(
                f"out must be whole; a killed run left earlier results in {folder}, and the "
                f"{name} in it cannot be put back where another one stands. Move one of them away."
            )
    for name, digest in moved.items():
        if sha256(out / name) == digest:
            os.replace(out / name, new / name)
    for path in entries:
        os.replace(path, out / path.name)


def _is_ours(folder: Path) -> bool:
    names = {path.name for path in folder.iterdir()}
    own = not hasattr(os, "geteuid") or folder.stat().st_uid == os.geteuid()
    return own and names <= {NEW, OLD}
