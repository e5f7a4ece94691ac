"""Files of a store on this machine: read only where they are plain files, links not followed.

What a killed process left is removed once no other process uses the store.
"""

import os
import stat
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from datassay.errors import DataError
from datassay.store.atomic import NOFOLLOW, NONBLOCK, fcntl, lock_if_free

# Seconds until a process that removes what another left is named.
PATIENCE = 30.0


@contextmanager
def open_plain(path: Path, max_bytes: int | None = None) -> Iterator[BinaryIO]:
    """Open a regular file for reading; raise for links, devices, or files too large.

    Args:
        path: of the file.
        max_bytes: that it may have; None is no limit.

    Yields:
        The file.

    Raises:
        FileNotFoundError: there is none.
        OSError: it cannot be read.
        DataError: it is a link, a folder, a pipe or a device, or has more bytes.
    """
    try:
        # Opening a pipe would wait for its other end.
        descriptor = os.open(path, os.O_RDONLY | NOFOLLOW | NONBLOCK)
    except OSError as error:
        if path.is_symlink():
            raise DataError(_describe_refusal(path)) from None
        raise error
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise DataError(_describe_refusal(path))
        if max_bytes is not None and status.st_size > max_bytes:
            raise DataError(
                f"store must hold its own files; {path} has {status.st_size:,} bytes, more than "
                f"{max_bytes:,}. Name another store, or delete that one."
            )
        yield file


def check_plain(folder: Path) -> None:
    """Raise if a folder holds anything but folders and regular files, at any depth."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise DataError(_describe_refusal(folder))
    unvisited = []
    if folder.exists():
        unvisited = [folder]
    while unvisited:
        with os.scandir(unvisited.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    unvisited.append(Path(entry.path))
                elif not entry.is_file(follow_symlinks=False):
                    raise DataError(_describe_refusal(Path(entry.path)))


def _describe_refusal(path: Path) -> str:
    """Return a message that a path is a link, folder or device, not a regular file."""
    if path.is_symlink():
        kind = "a link"
    elif path.is_dir():
        kind = "a folder"
    else:
        kind = "no plain file"
    return (
        f"store must hold plain files of its own; {path} is {kind}. Remove it, then run the same "
        "again."
    )


def hold(owner: object, folder: Path, unfinished: Iterable[Path]) -> None:
    """Lock a store as in use while `owner` lives; remove `unfinished` files of killed runs."""
    # The note is a shared lock on the folder, which the system drops with the process: it keeps no
    # other process from reading or writing, and none that was killed is waited for. It lasts as
    # long as `owner` lives; `unfinished` is looked for once no other process uses the store.
    if fcntl is None:
        return
    descriptor = lock_if_free(folder.resolve())
    if descriptor >= 0:
        for path in unfinished:
            with suppress(OSError):  # a folder that is only to be read
                path.unlink()
    else:
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return
    weakref.finalize(owner, os.close, descriptor)
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise DataError(
                    f"store must be free to use; another process holds the lock on {folder}. End "
                    "that process, then run the same again."
                ) from None
            time.sleep(0.02)
        except OSError:  # a file system without locks
            return
