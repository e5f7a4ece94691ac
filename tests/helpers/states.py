"""Every state of a folder between two system calls of what writes there: what a kill would leave.

A call is told by Python's audit events, before it is made; what of a file was not written yet is
stood for by half of it.
"""

import os
import shutil
import sys
import threading
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

CHANGES = {
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.link",
    "os.truncate",
    "shutil.move",
}
WRITES = os.O_WRONLY | os.O_RDWR
_watched: "_Watched | None" = None
_is_hooked = False


class _Watched:
    def __init__(self, folder, states):
        self.folder, self.states = folder, states
        self.lock, self.seen, self.is_busy, self.opened = threading.Lock(), set(), False, None

    def look(self, opened=None):
        """Copy the folder as it is if it never was so before, and with half of what was opened."""
        with self.lock:
            self.is_busy = True
            try:
                self._keep()
                half, self.opened = self.opened, opened
                if half in self.folder.rglob("*") and (size := half.stat().st_size) > 1:
                    self._keep(half.relative_to(self.folder), size // 2)
            finally:
                self.is_busy = False

    def _keep(self, cut="", size=0):
        digest = sha256()
        for path in sorted(self.folder.rglob("*")):
            digest.update(bytes(path.relative_to(self.folder)) + b"\0")
            if path.is_file():
                content = path.read_bytes()
                whole = path.relative_to(self.folder) != cut
                digest.update(content if whole else content[:size])
        if digest.digest() not in self.seen:
            self.seen.add(digest.digest())
            copy = self.states / str(len(self.seen))
            shutil.copytree(self.folder, copy, symlinks=True)
            if cut:
                os.truncate(copy / cut, size)


def _audit(event, args):
    if _watched is None or _watched.is_busy:
        return
    if event in CHANGES:
        _watched.look()
    elif event == "open" and args[2] & WRITES and isinstance(args[0], str):
        _watched.look(Path(os.path.abspath(args[0])))


@contextmanager
def states(folder, kept):
    """Keep each state of a folder while the block runs, and the last; yields the list of copies."""
    global _watched, _is_hooked
    if not _is_hooked:
        sys.addaudithook(_audit)
        _is_hooked = True
    kept.mkdir()
    copies = []
    _watched = _Watched(Path(os.path.abspath(folder)), kept)
    try:
        yield copies
        _watched.look()
    finally:
        _watched = None
    copies += sorted(kept.iterdir(), key=lambda path: int(path.name))
