"""Folders of results: all files replaced or none, and only those that we wrote.

`.datassay.json` beside the files lists the digest of each that we wrote. A new folder of results
appears by one rename. In a folder that exists, each file moves into place and the one that stood
there moves aside; the manifest moves last, which makes it final. Before that, whoever finds the
staging folder, this process after a failure or the next run after a kill, puts everything back.
"""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path

from datassay.errors import SettingError
from datassay.store.atomic import (
    MANIFEST,
    NEW,
    OLD,
    PREFIX,
    hold_lock,
    hold_signals,
    list_moved_folders,
    lock_if_free,
    remove,
)
from datassay.store.digests import file_digest


def read_digests(folder: Path, key: str = "files") -> dict[str, str]:
    """Return {file name: SHA-256} of files that we wrote there; {} without a manifest."""
    # key: "files" for all of them, "latest" for those of the last run.
    try:
        files = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))[key]
        return {str(name): str(digest) for name, digest in files.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}


def write_manifest(folder: Path, earlier: Mapping[str, str]) -> dict[str, str]:
    """Write the manifest of the finished files in a folder and of `earlier` ones that stay.

    Returns:
        Name → SHA-256 of the finished files.
    """
    latest = {path.name: sha256(path) for path in sorted(folder.iterdir())}
    made_by = f"datassay {version('datassay')}"
    manifest = {"made_by": made_by, "files": {**earlier, **latest}, "latest": latest}
    text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8")
    return latest


def sha256(path: Path) -> str:
    """Return a file's SHA-256; "" for a link or anything that is no regular file."""
    if path.is_symlink() or not path.is_file():
        return ""
    return file_digest(path)


def list_foreign(folder: Path, names: Iterable[str]) -> list[str]:
    """Return which of these files exist there and are not as we wrote them."""
    digests = read_digests(folder)
    existing = [name for name in names if os.path.lexists(folder / name)]
    foreign = [name for name in existing if sha256(folder / name) != digests.get(name)]
    if not digests and os.path.lexists(folder / MANIFEST):  # a manifest that does not read
        foreign.append(MANIFEST)
    return foreign


def place(folder: Path, out: Path, overwrite: bool, job: Iterable[str] = ()) -> None:
    """Move new files from a staging folder to `out`, and stale ones away, all or none."""
    # folder: of `staging`: in `out`, or beside it where `out` does not exist. overwrite: whether
    # files that we did not write may be replaced. job: see `write_pages`. What stands there is
    # compared under the lock: another process may have written since.
    new_folder = folder / NEW
    is_new = folder.parent != out
    with hold_signals(), nullcontext() if is_new else hold_lock(out):
        names = sorted(path.name for path in new_folder.iterdir())
        earlier = read_digests(out)
        unwritten = {name: sha for name, sha in earlier.items() if name not in names}
        unchanged = {name: sha for name, sha in unwritten.items() if sha256(out / name) == sha}
        stale = unchanged.keys() & set(job)
        staying = {name: sha for name, sha in unchanged.items() if name not in stale}
        latest = write_manifest(new_folder, staying)
        if is_new:
            os.rename(new_folder, out)
            return
        if not overwrite:
            # A file that an earlier run wrote with the same bytes stays, edited since or not.
            present = {name for name in names if os.path.lexists(out / name)}
            names = [n for n in names if n not in present or latest[n] != earlier.get(n)]
            refuse_foreign(out, names)
        try:
            for name in sorted(stale):
                os.replace(out / name, folder / OLD / name)
            # The page comes after its tables, the manifest last of all.
            for name in (*sorted(names, key=lambda n: n == "index.html"), MANIFEST):
                if os.path.lexists(out / name):
                    os.replace(out / name, folder / OLD / name)
                os.replace(new_folder / name, out / name)
        except BaseException:
            _roll_back(folder, out)
            raise


def refuse_foreign(out: Path, names: list[str]) -> None:
    """Raise if files of these names exist that we did not write, or that were changed since."""
    if foreign := list_foreign(out, names):
        raise SettingError(
            f"out must not replace files that datassay did not write, or that were changed since; "
            f"{out} holds {foreign[0]}. Choose another folder, move it away, or give --overwrite."
        )


def heal(parent: Path) -> None:
    """Roll back updates that killed processes left half done in `parent`; remove leftovers."""
    # What is not surely ours, or belongs to a process that lives, stays.
    if not any(parent.glob(f"{PREFIX}*")):
        return
    with hold_signals(), hold_lock(parent):
        for folder in sorted(parent.glob(f"{PREFIX}*")):
            lock = lock_if_free(folder)
            if lock < 0:  # of a process that lives
                continue
            try:
                if _is_ours(folder):
                    _roll_back(folder, parent)
                    remove(folder)
            finally:
                os.close(lock)


def _roll_back(folder: Path, out: Path) -> None:
    """Roll back a partial update, unless the new manifest or folder is already in its place."""
    new_folder = folder / NEW
    is_partial = (new_folder / MANIFEST).is_file()
    if is_partial:
        moved_aside = list((folder / OLD).iterdir())
    else:
        moved_aside = list_moved_folders(folder)
    latest = read_digests(new_folder, "latest")
    placed = {n: digest for n, digest in latest.items() if not os.path.lexists(new_folder / n)}
    for name in (path.name for path in moved_aside):
        if os.path.lexists(out / name) and sha256(out / name) != placed.get(name):
            raise SettingError(
                f"out must be whole; a killed run left earlier results in {folder}, and the "
                f"{name} in it cannot be put back where another one stands. Move one of them away."
            )
    for name, digest in placed.items():
        if sha256(out / name) == digest:
            os.replace(out / name, new_folder / name)
    for path in moved_aside:
        os.replace(path, out / path.name)


def _is_ours(folder: Path) -> bool:
    """Return whether this user made a staging folder, which holds only NEW and OLD."""
    names = {path.name for path in folder.iterdir()}
    is_owner = not hasattr(os, "geteuid") or folder.stat().st_uid == os.geteuid()
    return is_owner and names <= {NEW, OLD}
