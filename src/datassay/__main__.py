"""`datassay` and `python -m datassay`: the command line."""

import atexit
import gc
import io
import os
import signal
from contextlib import suppress

_statuses: list[int] = []  # the exit status, once the command line has ended


def _leave() -> None:
    """Stop the process with the interpreter as it is, once threads and exit handlers have ended.

    Threads of Arrow and torch live on. One that lets go of an object of Python's while the
    interpreter is taken down aborts the process: a command that had done all then failed.
    """
    if _statuses:
        for item in gc.get_objects():
            if issubclass(type(item), io.TextIOWrapper | io.BufferedWriter | io.BufferedRandom):
                with suppress(Exception):  # closed, or what it writes to takes nothing
                    item.flush()
        os._exit(_statuses[-1])


atexit.register(_leave)  # the first to be registered runs last
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # While the command line is imported, Ctrl-C ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from datassay.commands import main as run  # noqa: E402


def main() -> None:
    """Run the command line; note its exit status for `_leave`."""
    try:
        run()
    except SystemExit as end:
        if isinstance(end.code, int):
            _statuses.append(end.code)
        raise


if __name__ == "__main__":
    main()
