"""One command: its name, help, settings, job, page and files."""

from __future__ import annotations

import sys
import time


def closing_facts(started: float, command: str) -> dict[str, str]:
    """The last facts of a job: how long it took, and what repeats it.

    Args:
        started: `time.perf_counter()` at its start.
        command: what the user typed; empty from Python.

    Returns:
        Name to value.
    """
    facts = {"Seconds": f"{time.perf_counter() - started:.1f}"}
    return facts | ({"Command": command} if command else {})


def command_line() -> str:
    """The command that this process was started with, as a user would type it.

    Returns:
        "datassay" and its arguments, quoted for a shell.
    """
    import shlex

    return shlex.join(["datassay", *sys.argv[1:]])
