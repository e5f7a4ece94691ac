"""What every command shares: the streams it prints to, and how it fails."""

import io
import logging
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
from rich.control import Control
from rich.segment import Segment
from rich.text import Text

from datassay.errors import DatassayError, SettingError, hide_credentials, printable
from datassay.machine import out_of_memory
from datassay.optional import text_if

LONGEST = 2000  # characters of an error line
BAD_INPUT, BUG = 2, 70
_STOPS = [s for s in signal.Signals if s.name in {"SIGINT", "SIGTERM", "SIGHUP"}]
LOG_WIDTH = 200  # characters of a line in a log file
_log = logging.getLogger("datassay.printed")
SAME_STOP = 0.5  # seconds within which two signals count as one


class Stopped(KeyboardInterrupt):
    """The interruption by a signal, whose number is its argument."""

    # The last one: what it cuts short may raise another error instead.
    latest: "ClassVar[Stopped | None]" = None


class _Stream:
    """Standard output or error, where a failure to print is noted and ends no run."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.problem: Exception | None = None

    def write(self, text: str) -> int:
        return self._call("write", text) or 0

    def flush(self) -> None:
        self._call("flush")

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(sys, self.name) or sys.__stdin__, name)

    def _call(self, method: str, *args: str) -> Any:
        """Call the stream's method; on failure keep the error in `problem` and return None."""
        try:
            return getattr(getattr(sys, self.name), method)(*args)
        except AttributeError:  # there is none: it was closed before Python started
            self.problem = self.problem or OSError("it is closed")
        except (OSError, ValueError) as error:  # full, gone, or closed by a model's code
            self.problem = error


class _PlainConsole(Console):
    """A console that replaces unprintable characters, so that no text can control the terminal.

    What it prints a log file gets, too; of progress it gets the stages (`log_line`).
    """

    def print(self, *objects: Any, **options: Any) -> None:
        """Print, and note it in the log file where there is one."""
        super().print(*objects, **options)
        if _log.handlers and not any(isinstance(item, Control) for item in objects):
            text = io.StringIO()
            log_console = Console(file=text, width=LOG_WIDTH, markup=False, emoji=False)
            log_console.print(*objects, **options)
            log_line(text.getvalue())

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the segments of a renderable with unprintable characters replaced."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text, keep="\n"), style, control)


out_stream, err_stream = _Stream("stdout"), _Stream("stderr")
# What a user named (a file, a class) prints as it is: no markup, no :emoji:, no coloured numbers.
out_console, err_console = (
    _PlainConsole(file=stream, markup=False, emoji=False, highlight=False)  # pyrefly: ignore[bad-argument-type] (passes everything on)
    for stream in (out_stream, err_stream)
)


def log_to(path: str | None) -> None:
    """Append all that is printed from now on to a file, each line with its time; None: to none.

    Raises:
        SettingError: the file cannot be written.
    """
    for earlier in _log.handlers[:]:
        _log.removeHandler(earlier)
        earlier.close()
    if path is None:
        return
    try:
        handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise SettingError(
            f"log-file must name a file that can be written; got {path}: {why}. Name another."
        ) from error
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)
    _log.propagate = False


def log_line(text: str) -> None:
    """Note the lines of a text in the log file; do nothing where there is none."""
    for line in text.splitlines():
        if _log.handlers and line.strip():
            _log.info("%s", printable(line.rstrip()))


def say(text: str, style: str = "") -> None:
    """Print one line on standard error, credentials hidden, at most LONGEST characters long."""
    line = printable(" ".join(hide_credentials(text).split()))
    if len(line) > LONGEST:
        line = f"{line[: LONGEST // 2]} … {line[-LONGEST // 2 :]}"
    err_console.print(Text(line, style=style), soft_wrap=True)


@contextmanager
def clear_exit(use_flags: Callable[[str], str] = str) -> Iterator[None]:
    """Turn errors into one line and status 2 (bad input) or 128 + number (signal), no traceback."""
    # `use_flags` puts options into an error's text where it has Python's arguments.
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except BaseException as error:
        if isinstance(error, Exception) and sys.flags.dev_mode:
            raise
        ignore_stops()
        error = Stopped.latest or error
        if not isinstance(error, DatassayError | KeyboardInterrupt):
            log_line("".join(traceback.format_exception(error)))
        status, line = describe_error(error, use_flags)
        say(line, text_if(not isinstance(error, KeyboardInterrupt), "red"))
        raise typer.Exit(status) from None


def check_printed() -> bool:
    """Return whether all was printed or its reader stopped early, as `head` does; else say why."""
    if isinstance(out_stream.problem, BrokenPipeError) or out_stream.problem is None:
        return True
    say(f"Error: what was done is stored, but it could not be printed: "
        f"{_reason(out_stream.problem)}.", "red")  # fmt: skip
    return False


def describe_error(error: BaseException, use_flags: Callable[[str], str] = str) -> tuple[int, str]:
    """Return the exit status and the message for an error that ended a command."""
    if isinstance(error, DatassayError):
        return BAD_INPUT, f"Error: {use_flags(str(error))}"
    if isinstance(error, KeyboardInterrupt):
        if isinstance(error, Stopped):
            number = error.args[0]
        else:
            number = signal.SIGINT
        verb = "Terminated"
        if number == signal.SIGINT:
            verb = "Interrupted"
        return 128 + number, f"{verb}. Earlier results are as they were."
    if out_of_memory(error):
        return BAD_INPUT, (
            f"Error: memory ran out{_place(error)}: {_reason(error)}. Give fewer samples or "
            "inputs, a smaller model, or --memory where the command has it."
        )
    if isinstance(error, FileNotFoundError) and error.filename is None:  # of os.getcwd
        return BAD_INPUT, "Error: the current folder must exist; it was deleted. Go to another one."
    reason = f"{type(error).__name__}: {_reason(error)}{_place(error)}"
    if _select_frames(error, is_user=True):
        return BAD_INPUT, f"Error: code that is not datassay's must not fail; it raised {reason}."
    return BUG, (
        f"Error: a bug of datassay: {reason}. Please report it; with PYTHONDEVMODE=1 the same "
        "command shows the whole traceback."
    )


def _reason(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error) or "nothing said"


def _place(error: BaseException) -> str:
    """Return where an error came from: the user's own code if any took part, else ours."""
    frames = _select_frames(error, is_user=True) or _select_frames(error, is_user=False)
    return "".join(f" ({f.filename}, line {f.lineno}, in {f.name})" for f in frames[-1:])


def _select_frames(error: BaseException, *, is_user: bool) -> list[traceback.FrameSummary]:
    """Return an error's frames in the user's own files if `is_user`, else in datassay's."""
    ours = str(Path(__file__).parents[1])
    frames = traceback.extract_tb(error.__traceback__)
    if not is_user:
        return [f for f in frames if f.filename.startswith(ours)]
    path_names = ("stdlib", "platstdlib", "purelib", "platlib")
    libraries = (ours, *map(sysconfig.get_path, path_names))
    # Compiled libraries name their files without a folder.
    in_files = [f for f in frames if os.path.isabs(f.filename)]
    return [f for f in in_files if not f.filename.startswith(libraries)]


def handle_stops() -> None:
    """Let SIGTERM and SIGHUP end the command as Ctrl-C does, unless they are ignored already.

    A terminal and a wrapper may both pass on one Ctrl-C: the second is ignored. Where Python can
    raise nothing, as in a finalizer, the signal is sent once more.
    """
    last_time = -math.inf

    def stop(number: int, frame: object) -> None:
        """Raise Stopped, unless a signal came just before."""
        nonlocal last_time
        earlier = last_time
        last_time = time.monotonic()
        if last_time - earlier > SAME_STOP:
            warnings.simplefilter("ignore")  # of what the exception cuts short, as an import
            Stopped.latest = Stopped(number)
            raise Stopped.latest

    def resend_stop(failure: "sys.UnraisableHookArgs") -> None:
        """Send the signal again where Python could not raise it."""
        nonlocal last_time
        if not isinstance(failure.exc_value, Stopped):
            return sys.__unraisablehook__(failure)
        last_time = -math.inf
        threading.Timer(0.01, os.kill, (os.getpid(), *failure.exc_value.args)).start()

    sys.unraisablehook = resend_stop
    for number in _STOPS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup asks for
            signal.signal(number, stop)


def ignore_stops() -> None:
    """Ignore further signals while a stopped command cleans up; does nothing without `main`."""
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
    """Write out the streams; replace one that fails, so that Python does not complain at exit."""
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except AttributeError:  # there is none
            continue
        except (OSError, ValueError):
            setattr(sys, name, open(os.devnull, "w"))
