"""One attempt: a piece of work in a forked process, with a time limit, and how it ended.

The parent imports everything once and never computes, so that a child starts in milliseconds.
"""

import fcntl
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

# Seconds after which a command on a few dozen samples counts as hanging.
LIMIT = 60.0
# What datassay ends with: done, bad input, interrupted, ended.
STATUSES = {0, 2, 3, 4, 128 + signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGHUP}


@dataclass(frozen=True)
class Attempt:
    """How a piece of work ended."""

    status: int | None  # exit status, or minus the signal that ended it; None: it hung
    out: str  # what it printed to stdout
    err: str  # to stderr
    seconds: float  # that it took


def attempt(
    work: Callable[[], object],
    folder: Path,
    *,
    during: Callable[[int], object] = lambda pid: None,
    limit: float = LIMIT,
) -> Attempt:
    """Do the work in a child whose current folder is `folder`.

    Args:
        work: in the child; may leave by SystemExit.
        folder: of the child.
        during: in the parent, of the child's process id, once it runs.
        limit: in seconds.

    Returns:
        How it ended.
    """
    pipes = [_pipe() for _ in range(2)]
    start = time.perf_counter()
    pid = os.fork()
    if not pid:
        _child(work, folder, [writer for _, writer in pipes])
    for _, writer in pipes:
        os.close(writer)
    during(pid)
    status = _status(pid, start + limit)
    seconds = time.perf_counter() - start
    out, err = (_drained(reader) for reader, _ in pipes)
    return Attempt(status, out, err, seconds)


def command(arguments: Sequence[str]) -> Callable[[], object]:
    """The work of a command line."""

    def work() -> None:
        from datassay.commands.app import main

        sys.argv = ["datassay", *arguments]
        main()

    return work


def _pipe() -> tuple[int, int]:
    """A pipe with room for all that a command prints."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 2**20)
    os.set_blocking(reader, False)
    return reader, writer


def _drained(reader: int) -> str:
    with open(reader, "rb") as file:
        return (file.read() or b"").decode("utf-8", "backslashreplace")


def _child(work, folder: Path, writers: Sequence[int]) -> None:
    status = 1
    try:
        os.setpgid(0, 0)
        for number in (signal.SIGINT, signal.SIGHUP):  # which a shell's background jobs ignore
            signal.signal(number, signal.default_int_handler)
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, writer in enumerate(writers, 1):
            os.dup2(writer, number)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)
        work()
        status = 0
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else int(bool(stop.code))
    except BaseException:  # noqa: BLE001  (as the interpreter would show it)
        traceback.print_exc()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the command has ended
            signal.signal(number, signal.SIG_IGN)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                status = status or 120
        os._exit(status)


def _status(pid: int, end: float) -> int | None:
    pause = 0.001
    while time.perf_counter() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            _end_group(pid)
            return os.waitstatus_to_exitcode(status)
        time.sleep(pause)
        pause = min(0.02, pause * 1.3)
    _end_group(pid)
    os.waitpid(pid, 0)
    return None


def _end_group(pid: int) -> None:
    """End what the child started and left behind."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def verdict(ended: Attempt, expected: frozenset[int] = frozenset()) -> str | None:
    """What is wrong with how an attempt ended; None: nothing."""
    if ended.status is None:
        return "hang"
    if "Traceback (most recent call last)" in ended.err + ended.out:
        return "traceback"
    if ended.status not in STATUSES | expected:
        return f"status {ended.status}"
    if ended.status == 2 and not _told(ended.err):
        return "no message"
    if "\x1b" in ended.err + ended.out:
        return "terminal escape"
    return None


def _told(text: str) -> bool:
    lines = text.splitlines()
    errors = [line for line in lines if line.startswith("Error: ")]
    return len(errors) == 1 or any("Usage:" in line or "Error" in line for line in lines)
