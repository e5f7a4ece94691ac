"""A journal beside a file that takes long to write: what was added since, one JSON value a line.

Its first line holds the file's SHA-256: a journal counts beside that file and no other. A last
line that a killed process left incomplete is ignored, and truncated by the next write.
"""

import errno
import json
import os
from pathlib import Path
from typing import Any

from datassay.store.digests import file_digest


def journal_of(path: Path) -> Path:
    """Return the path of the journal beside a file, whether it exists or not."""
    return path.with_name(f"{path.name}.journal")


def state(path: Path) -> tuple[int, ...]:
    """Return numbers that change when another program writes the file or its journal."""
    stats = [p.stat() for p in (path, journal_of(path)) if p.exists()]
    return tuple(n for stat in stats for n in (stat.st_ino, stat.st_size, stat.st_mtime_ns))


def add(path: Path, value: object) -> None:
    """Append a value to a file's journal, synced to disk; on failure nothing is written."""
    with journal_of(path).open("ab+", buffering=0) as file:
        end = _truncate_incomplete(file)
        digest = file_digest(path)
        if end and not _is_begun_with(file, digest):  # of an earlier file, left by a kill
            end = 0
            file.truncate(end)
        lines = [value]
        if not end:
            lines = [digest, value]
        content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        try:
            if file.write(content) < len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file.fileno())
        except OSError:
            file.truncate(end)
            raise


def read_journal(path: Path) -> tuple[list[Any], bool]:
    """Return the journal's values, and whether it belongs to the file as it is now."""
    # Read before the file: one that is completed meanwhile holds all that was in its journal.
    try:
        *lines, _incomplete = journal_of(path).read_bytes().split(b"\n")
    except FileNotFoundError:
        return [], True
    base, *values = map(json.loads, lines or [b"null"])  # an empty journal has no digest
    return values, not values or base == file_digest(path)


def _truncate_incomplete(file: Any) -> int:
    """Remove an incomplete last line; return the journal's length in bytes."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - 1))
    if end and file.read(1) != b"\n":
        file.seek(0)
        end = file.read().rfind(b"\n") + 1
        file.truncate(end)
    return end


def _is_begun_with(file: Any, digest: str) -> bool:
    """Return whether a journal's first line is this digest of its file."""
    line = json.dumps(digest).encode() + b"\n"
    file.seek(0)
    return file.read(len(line)) == line
