"""Finished files into place: all of them or none, also where the process is killed between two.

New files are completed in a folder of their own, `.datassay-…`, with a manifest of their digests.
A new folder of results appears by one rename. In a folder that exists, each file moves into place
and the one that stood there moves aside; the manifest moves last, which makes it final. Before
that, whoever finds the folder, this process after a failure or the next run after a kill, puts
everything back. The folder is locked as long as its process lives.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from datassay.errors import SettingError
from datassay.report.manifest import MANIFEST, foreign, sha256, written

try:
    import fcntl
except ImportError:  # not on every system; then nothing is locked, and no leftovers are removed
    fcntl = None

PREFIX = ".datassay-"
NEW, OLD = "new", "old"
STOPPING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if
            hasattr(signal, name)]  # fmt: skip


@contextmanager
def staging(parent: Path) -> Iterator[Path]:
    """A folder for new files, on the disk of `parent`; removed with all that is in it.

    Args:
        parent: an existing folder.

    Yields:
        The folder; files go to its `new`.
    """
    folder, lock = None, -1
    try:
        # Nobody takes it for a leftover before it is locked itself.
        with uninterrupted(), _locked(parent):
            folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
            (folder / NEW).mkdir()
            (folder / OLD).mkdir()
            lock = _lock(folder)
        yield folder
    finally:
        try:
            with uninterrupted():
                _remove(folder)
        finally:
            _remove(folder)  # again: a signal may have come just before it was held back
            if lock >= 0:
                os.close(lock)


def place(folder: Path, out: Path, overwrite: bool) -> None:
    """Move the new files of a staging folder to `out`, all of them or none.

    Args:
        folder: of `staging`; `new` holds the files and their manifest.
        out: where they go; made where it does not exist.
        overwrite: whether files that we did not write may be replaced.

    Raises:
        SettingError: such a file stands in the way.
        OSError: the file system refuses; what stood there stands there again.
    """
    with uninterrupted():
        if folder.parent != out:
            os.rename(folder / NEW, out)
            return
        with _locked(out):
            names = [path.name for path in sorted((folder / NEW).iterdir())]
            if not overwrite:
                refuse_foreign(out, names)
            try:
                # The page comes after its tables, the manifest last of all.
                for name in sorted(names, key=lambda n: (n == MANIFEST, n == "index.html")):
                    if os.path.lexists(out / name):
                        os.replace(out / name, folder / OLD / name)
                    os.replace(folder / NEW / name, out / name)
            except BaseException:
                _put_back(folder, out)
                raise


def refuse_foreign(out: Path, names: list[str]) -> None:
    """Refuse to replace what we did not write, or what was changed since.

    Args:
        out: the folder.
        names: of files that will go there.

    Raises:
        SettingError: one of them stands there and is not ours.
    """
    if others := foreign(out, names):
        raise SettingError(
            f"out must not replace files that datassay did not write, or that were changed since; "
            f"{out} holds {others[0]}. Choose another folder, move it away, or give --overwrite."
        )


def heal(parent: Path) -> None:
    """Undo what a killed process left half done in a folder, and remove its leftovers.

    Args:
        parent: a folder; need not exist. What is not surely ours, or belongs to a process that
            lives, stays.

    Raises:
        SettingError: earlier results cannot be put back, since other files stand there now.
    """
    if fcntl is None or not any(parent.glob(f"{PREFIX}*")):
        return
    with uninterrupted(), _locked(parent):
        for folder in sorted(parent.glob(f"{PREFIX}*")):
            if (lock := _lock(folder)) < 0:
                continue
            try:
                if _is_ours(folder):
                    _put_back(folder, parent)
                    _remove(folder)
            finally:
                os.close(lock)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back what would stop the process until the block is done.

    Yields:
        Nothing; a second Ctrl-C waits as well.
    """
    came: list[int] = []
    before = {}
    try:
        if threading.current_thread() is threading.main_thread():  # no other gets signals
            for number in STOPPING:
                before[number] = signal.signal(number, lambda got, _: came.append(got))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        for number in came[:1]:
            signal.raise_signal(number)


def _put_back(folder: Path, out: Path) -> None:
    """Where the new manifest is not in its place, everything is as it was before."""
    new, old = folder / NEW, folder / OLD
    if not (new / MANIFEST).is_file():
        return
    latest = written(new, "latest")
    moved = {n: digest for n, digest in latest.items() if not os.path.lexists(new / n)}
    for name in (*moved, MANIFEST):
        taken = os.path.lexists(out / name) and sha256(out / name) != moved.get(name)
        if os.path.lexists(old / name) and taken:
            raise SettingError(
                f"out must be whole; a killed run left earlier results in {folder}, and the "
                f"{name} in it cannot be put back where another one stands. Move one of them away."
            )
    for name, digest in moved.items():
        if sha256(out / name) == digest:
            os.replace(out / name, new / name)
    for path in old.iterdir():
        os.replace(path, out / path.name)


def _remove(folder: Path | None) -> None:
    if folder is None:
        return
    with suppress(OSError):
        (folder / NEW / MANIFEST).unlink(missing_ok=True)  # first: the rest is no journal any more
    shutil.rmtree(folder, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    names = {path.name for path in folder.iterdir()}
    own = not hasattr(os, "geteuid") or folder.stat().st_uid == os.geteuid()
    return own and names <= {NEW, OLD}


def _lock(folder: Path) -> int:
    """A descriptor that holds the folder's lock; -1 where another process has it, or none can."""
    if fcntl is None:
        return -1
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return -1
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return -1
    return descriptor


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Wait for the lock of a folder and hold it; it only guards moves, which take milliseconds."""
    descriptor = -1
    if fcntl is not None:
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)
