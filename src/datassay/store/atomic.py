"""Files and folders that appear whole or not at all, whatever stops the process.

A file is completed under a name that cannot be guessed in the same folder, then moved there. A
folder is completed in a staging folder, `.datassay-…`, on the same disk, then renamed. What is
unfinished is locked as long as its process lives, so that others can tell what a killed one left.
"""

import os
import re
import secrets
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from datassay.optional import coalesce

try:
    import fcntl
except ImportError:  # not on every system; then nothing is locked, and no leftovers are removed
    fcntl = None

# Flags of opening that Windows has not; links are rare there.
NOFOLLOW, NONBLOCK = (getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK"))
# `.name.32 digits.part`, as `write_whole` names what is unfinished.
UNFINISHED = re.compile(r"\..+\.[0-9a-f]{32}\.part")
PREFIX = ".datassay-"
NEW, OLD = "new", "old"  # folders in a staging folder: files to place, and files moved aside
MANIFEST = ".datassay.json"  # of a folder of results, see `folders`
STOPPING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if
            hasattr(signal, name)]  # fmt: skip


def write_whole(path: Path, write: Callable[[BinaryIO], object], *, replace: bool = True) -> None:
    """Write a file atomically: under a temporary name, synced to disk, then moved into place."""
    # replace: whether a file that is there already is replaced, or kept; a link is replaced, not
    # followed. On failure nothing is left.
    partial_path = path.with_name(f".{path.name}.{secrets.token_hex(16)}.part")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | NOFOLLOW
    try:
        with os.fdopen(os.open(partial_path, flags, 0o666), "w+b") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(partial_path, path)
        else:
            _move_once(partial_path, path)
    finally:
        with suppress(OSError):
            partial_path.unlink(missing_ok=True)


def _move_once(partial_path: Path, path: Path) -> None:
    """Move a finished file to `path`, unless a file exists there."""
    try:
        os.link(partial_path, path)
    except FileExistsError:
        pass  # another process was first
    except OSError:  # no links on this file system
        if not os.path.lexists(path):
            os.replace(partial_path, path)


@contextmanager
def staging(parent: Path) -> Iterator[Path]:
    """Create a temporary folder beside the results; it is removed when the block ends.

    Args:
        parent: an existing folder.

    Yields:
        The folder; files go to its `new`.
    """
    folder = None
    lock = -1
    try:
        # Nobody takes it for a leftover before it is locked itself.
        with hold_signals(), hold_lock(parent):
            folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
            (folder / NEW).mkdir()
            (folder / OLD).mkdir()
            lock = lock_if_free(folder)
        yield folder
    finally:
        try:
            with hold_signals():
                remove(folder)
        finally:
            remove(folder)  # again: a signal may have come just before it was held back
            if lock >= 0:
                os.close(lock)


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """Create a folder to fill, which replaces `out` atomically when the block ends.

    Args:
        out: absolute; replaced where it exists.

    Yields:
        An empty folder on the same disk; where the block fails, it is removed.

    Raises:
        OSError: the file system refuses; what stood there stands there again.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    with staging(out.parent) as folder:
        yield folder / NEW
        with hold_signals():
            earlier = folder / OLD / out.name
            if out.is_dir():
                os.rename(out, earlier)
            try:
                os.rename(folder / NEW, out)
            except OSError:
                if earlier.is_dir():
                    os.rename(earlier, out)
                raise


def list_moved_folders(folder: Path) -> list[Path]:
    """Return folders that were moved aside while their replacement is not in place yet."""
    is_pending = (folder / NEW).is_dir() and (folder / OLD).is_dir()
    if not is_pending:
        return []
    return [path for path in (folder / OLD).iterdir() if path.is_dir()]


def remove(folder: Path | None) -> None:
    """Remove a staging folder, manifest first, so that `heal` cannot roll it back halfway."""
    if folder is not None and not list_moved_folders(folder):  # else `heal` puts the only copy back
        with suppress(OSError):
            (folder / NEW / MANIFEST).unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def hold_signals() -> Iterator[None]:
    """Hold back signals that would stop the process until the block is done.

    Yields:
        Nothing; a second Ctrl-C waits as well.
    """
    received: list[int] = []
    handlers = {}
    try:
        if threading.current_thread() is threading.main_thread():  # no other gets signals
            for number in STOPPING:
                handlers[number] = signal.signal(number, lambda code, _: received.append(code))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, coalesce(handler, signal.SIG_DFL))
        for number in received[:1]:
            signal.raise_signal(number)


def lock_if_free(folder: Path) -> int:
    """Return a descriptor that holds the folder's lock; -1 if another process has it."""
    if fcntl is None:
        return -1
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | NOFOLLOW)
    except OSError:
        return -1
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return -1
    return descriptor


@contextmanager
def hold_lock(folder: Path) -> Iterator[None]:
    """Hold a folder's lock inside the block, waiting for it: others hold it for milliseconds."""
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
