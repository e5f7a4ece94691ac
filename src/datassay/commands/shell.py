"""What every command shares: where it prints and how it fails."""

from __future__ import annotations

import math
import os
import signal
import sys
import sysconfig
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from datassay.errors import DatassayError, printable, redacted
from datassay.machine import out_of_memory

LONGEST = 2000  # characters of an error line
BAD_INPUT, BUG = 2, 70
_STOPS = [s for s in signal.Signals if s.name in {"SIGINT", "SIGTERM", "SIGHUP"}]
SAME_STOP = 0.5  # seconds within which two signals are one wish


class Stopped(KeyboardInterrupt):
    """A signal asks to stop; its argument says which."""

    asked: ClassVar[Stopped | None] = None  # the last; what it cuts short may raise another error


class _Stream:
    """Standard output or error: a failure to print is noted, and ends no run."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.problem: Exception | None = None

    def write(self, text: str) -> int:
        return self._try("write", text) or 0

    def flush(self) -> None:
        self._try("flush")

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(sys, self.name) or sys.__stdin__, name)

    def _try(self, what: str, *args: str) -> Any:
        try:
            return getattr(getattr(sys, self.name), what)(*args)
        except AttributeError:  # there is none: it was closed before Python started
            self.problem = self.problem or OSError("it is closed")
        except (OSError, ValueError) as error:  # full, gone, or closed by a model's code
            self.problem = error


class _PlainConsole(Console):
    """A console to which no text can give commands: what is not printable is replaced."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Every line to the terminal passes here, in the end."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text, keep="\n"), style, control)


out_stream, err_stream = _Stream("stdout"), _Stream("stderr")
# What a user named (a file, a class) prints as it is: no markup, no :emoji:, no coloured numbers.
out_console, err_console = (
    _PlainConsole(file=stream, markup=False, emoji=False, highlight=False)  # pyrefly: ignore[bad-argument-type] (passes everything on)
    for stream in (out_stream, err_stream)
)


def say(text: str, style: str = "") -> None:
    """Print one line on standard error: credentials hidden, not longer than a message may be."""
    line = printable(" ".join(redacted(text).split()))
    if len(line) > LONGEST:
        line = f"{line[: LONGEST // 2]} … {line[-LONGEST // 2 :]}"
    err_console.print(Text(line, style=style), soft_wrap=True)


@contextmanager
def clear_exit(as_typed: Callable[[str], str] = str) -> Iterator[None]:
    """Bad input: one line and status 2. A signal: one line and 128 + its number. No traceback."""
    # `as_typed` puts options into an error's text where it has Python's arguments.
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except BaseException as error:
        if isinstance(error, Exception) and sys.flags.dev_mode:
            raise
        ignore_stops()
        error = Stopped.asked or error
        status, line = outcome(error, as_typed)
        say(line, "" if isinstance(error, KeyboardInterrupt) else "red")
        raise typer.Exit(status) from None


def printed() -> bool:
    """Whether all could be printed, or its reader had enough, as `head` has; says so if not."""
    if isinstance(out_stream.problem, BrokenPipeError) or out_stream.problem is None:
        return True
    say(f"Error: what was done is stored, but it could not be printed: "
        f"{_reason(out_stream.problem)}.", "red")  # fmt: skip
    return False


def outcome(error: BaseException, as_typed: Callable[[str], str] = str) -> tuple[int, str]:
    """Exit status and line of what ended a command."""
    if isinstance(error, DatassayError):
        return BAD_INPUT, f"Error: {as_typed(str(error))}"
    if isinstance(error, KeyboardInterrupt):
        number = error.args[0] if isinstance(error, Stopped) else signal.SIGINT
        what = "Interrupted" if number == signal.SIGINT else "Terminated"
        return 128 + number, f"{what}. Earlier results are as they were."
    if out_of_memory(error):
        return BAD_INPUT, (
            f"Error: memory ran out{_place(error)}: {_reason(error)}. Give fewer samples or "
            "inputs, a smaller model, or --memory where the command has it."
        )
    if isinstance(error, FileNotFoundError) and error.filename is None:  # of os.getcwd
        return BAD_INPUT, "Error: the current folder must exist; it was deleted. Go to another one."
    reason = f"{type(error).__name__}: {_reason(error)}{_place(error)}"
    if _frames(error, own=True):
        return BAD_INPUT, f"Error: code that is not datassay's must not fail; it raised {reason}."
    return BUG, (
        f"Error: a bug of datassay: {reason}. Please report it; with PYTHONDEVMODE=1 the same "
        "command shows the whole traceback."
    )


def _reason(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error) or "nothing said"


def _place(error: BaseException) -> str:
    """Where an error came from: the user's own code if any took part, else ours."""
    frames = _frames(error, own=True) or _frames(error, own=False)
    return "".join(f" ({f.filename}, line {f.lineno}, in {f.name})" for f in frames[-1:])


def _frames(error: BaseException, *, own: bool) -> list[traceback.FrameSummary]:
    """The frames of an error in a user's own code, or those in datassay."""
    ours = str(Path(__file__).parents[1])
    frames = traceback.extract_tb(error.__traceback__)
    if not own:
        return [f for f in frames if f.filename.startswith(ours)]
    positions = ("stdlib", "platstdlib", "purelib", "platlib")
    libraries = (ours, *map(sysconfig.get_path, positions))
    # Compiled libraries name their files without a folder.
    named = [f for f in frames if os.path.isabs(f.filename)]
    return [f for f in named if not f.filename.startswith(libraries)]


def stops_clearly() -> None:
    """Let SIGTERM and SIGHUP end the command as Ctrl-C does, unless they are ignored already.

    A terminal and a wrapper may both pass on one Ctrl-C: the second is no wish of its own. Where
    Python can raise nothing, as in a finalizer, the signal is sent once more.
    """
    last = -math.inf

    def stop(number: int, frame: object) -> None:
        nonlocal last
        earlier, last = last, time.monotonic()
        if last - earlier > SAME_STOP:
            warnings.simplefilter("ignore")  # of what the exception cuts short, as an import
            Stopped.asked = Stopped(number)
            raise Stopped.asked

    def unraised(what: sys.UnraisableHookArgs) -> None:
        nonlocal last
        if not isinstance(what.exc_value, Stopped):
            return sys.__unraisablehook__(what)
        last = -math.inf
        threading.Timer(0.01, os.kill, (os.getpid(), *what.exc_value.args)).start()

    sys.unraisablehook = unraised
    for number in _STOPS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup asks for
            signal.signal(number, stop)


def ignore_stops() -> None:
    """While a stopped command cleans up, a second signal must not stop that; not without `main`."""
    if callable(signal.getsignal(signal.SIGTERM)):
        for number in _STOPS:
            signal.signal(number, signal.SIG_IGN)


def open_standard_streams() -> None:
    """Keep a file of ours from taking the place of a standard stream that is closed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def close_quietly() -> None:
    """Let Python's own end not complain of what could not be printed."""
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except AttributeError:  # there is none
            continue
        except (OSError, ValueError):
            setattr(sys, name, open(os.devnull, "w"))
