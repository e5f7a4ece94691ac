"""The command line: its commands are the folders beside this file."""

from __future__ import annotations

import io
import logging
import os
import pkgutil
import sys
import threading
import warnings
from importlib import import_module
from typing import Annotated

import typer
from rich.logging import RichHandler

import datassay
from datassay.commands.command import Command
from datassay.commands.options import add_command
from datassay.commands.shell import (
    close_quietly,
    err_console,
    ignore_stops,
    open_standard_streams,
    out_console,
    outcome,
    say,
    stops_clearly,
)
from datassay.commands.usage import OneLineGroup

# Retraining is many small parallel regions. Where another process wants the cores, threads spinning
# at their barriers make it 20 times slower; sleeping ones cost nothing measurable when alone. The
# runtime reads this once, when torch is first imported, so it stands here and yields to the user's.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

app = typer.Typer(
    name="datassay",
    cls=OneLineGroup,
    help="Which training samples matter, and what to do about it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> bool:
    if wanted:
        out_console.print(f"datassay {datassay.__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _configure(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    handler = RichHandler(console=err_console, show_time=False, show_path=False)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler])
    logging.getLogger("datassay").setLevel(logging.INFO)


def commands() -> list[Command]:
    """The COMMAND, or COMMANDS, of every folder beside this file, in their order."""
    package = __name__.rpartition(".")[0]
    folders = [m.name for m in pkgutil.iter_modules(sys.modules[package].__path__) if m.ispkg]
    modules = [import_module(f"{package}.{folder}.command") for folder in folders]
    several = [c for module in modules for c in getattr(module, "COMMANDS", ())]
    single = [module.COMMAND for module in modules if hasattr(module, "COMMAND")]
    return sorted([*several, *single], key=lambda command: command.order)


for _command in commands():
    add_command(app, _command)


def _tell_thread(failed: threading.ExceptHookArgs) -> None:
    say(f"Error in a thread of its own: {failed.exc_type.__name__}: {failed.exc_value}", "red")


def main() -> None:
    """Run the command line: what libraries warn about is theirs to see, unless asked for."""
    open_standard_streams()
    try:
        stops_clearly()
        threading.excepthook = _tell_thread
        for stream in (sys.stdout, sys.stderr):
            # A label that the encoding of a terminal or pipe lacks must not end a finished run.
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        if not sys.warnoptions:
            warnings.simplefilter("ignore")
        app()
    except KeyboardInterrupt as stop:  # before a command began
        ignore_stops()
        status, line = outcome(stop)
        say(line)
        sys.exit(status)
    finally:
        close_quietly()
