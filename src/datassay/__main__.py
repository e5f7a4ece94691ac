"""`datassay` and `python -m datassay`: the command line."""

import atexit
import gc
import io
import os
import signal
from contextlib import suppress

_endings: list[int] = []  # the exit status, once the command line has ended


def _leave() -> None:
    """End the process without taking the interpreter down, once threads and exit handlers ended.

    Threads of Arrow and torch live on. One that lets go of an object of Python's while the
    interpreter is taken down aborts the process: a command that had done all then failed.
    """
    if _endings:
        for opened in gc.get_objects():
            if issubclass(type(opened), io.TextIOWrapper | io.BufferedWriter | io.BufferedRandom):
                with suppress(Exception):  # closed, or what it writes to takes nothing
                    opened.flush()
        os._exit(_endings[-1])


atexit.register(_leave)  # the first to be registered runs last
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # While the command line is imported, Ctrl-C ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from datassay.commands import main as run  # noqa: E402


def main() -> None:
    """Run the command line, and end the process."""
    try:
        run()
    except SystemExit as ended:
        _endings.extend([ended.code] if isinstance(ended.code, int) else [])
        raise


if __name__ == "__main__":
    main()
