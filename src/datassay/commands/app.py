"""The command line: its commands are the folders beside this file, and those of methods."""

import io
import logging
import os
import re
import shlex
import sys
import threading
import warnings
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import datassay
from datassay.commands.command import Command
from datassay.commands.config import FILE as CONFIG
from datassay.commands.config import config_words, read_config, split_shared
from datassay.commands.help import GROUPS, help_text
from datassay.commands.options import add_command
from datassay.commands.shell import (
    BAD_INPUT,
    check_printed,
    clear_exit,
    close_quietly,
    describe_error,
    err_console,
    handle_stops,
    ignore_stops,
    log_line,
    log_to,
    open_standard_streams,
    out_console,
    out_stream,
    say,
)
from datassay.errors import UNWEIGHTED, SettingError, hide_credentials
from datassay.plugins import checked_plugins, folder_modules

# Retraining is many small parallel regions. Where another process wants the cores, threads spinning
# at their barriers make it 20 times slower; sleeping ones cost nothing measurable when alone. The
# runtime reads this once, when torch is first imported, so it stands here and yields to the user's;
# in lower case, since the i of PASSIVE is another letter where the locale is Turkish.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

COMPLETION = "_DATASSAY_COMPLETE"  # set where a shell asks what a word may go on as
# Commands that a distribution of ours adds, said where it is not installed.
ELSEWHERE = {
    "lab": "lab is a command of the package datassay-lab, which is not installed; in a clone of "
    "the repository run pip install ./packages/datassay-lab"
}


class CommandGroup(TyperGroup):
    """The commands of datassay, and of plugins, which are searched only for an unknown name.

    Reading the entry points of installed packages is the slowest part of starting a command.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by group, each with the first sentence of its help."""
        panels: dict[str, list[tuple[str, str]]] = {group: [] for group in GROUPS}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            summary = re.split(r"(?<=\.)\s", command.help.strip())[0]
            panels[command.rich_help_panel].append((name, summary))
        config = f"A file of options (default: {CONFIG}, or [tool.datassay] of pyproject.toml)."
        log = "Append what is printed to a file, with the time."
        panels["Options"] = [("--config", config), ("--log-file", log)]
        panels["Options"] += [("--version", "Show the version.")]
        panels["Options"] += [("--help", "Show this.")]
        epilog = f"{ctx.command_path} COMMAND --help says what a command takes."
        usage = f"{ctx.command_path} COMMAND [DATA] [OPTIONS]"
        formatter.write(help_text(usage, str(self.help), panels, epilog, name_width=14))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the typed words and those of the file of options; open the log file first."""
        with clear_exit(lambda text: re.sub("^(?=config |log-file )", "--", text)):
            typed, files = split_shared(args)
            log_to(files.get("log-file"))
            log_line(hide_credentials(shlex.join(["datassay", *args])))
            path = files.get("config")
            words = self._add_config_words(typed, None if path is None else Path(path))
        if sys.argv[1:] == list(args):  # as it is repeated, on pages and in summaries
            sys.argv = [sys.argv[0], *words]
        return super().parse_args(ctx, words)

    def _add_config_words(self, typed: list[str], path: Path | None) -> list[str]:
        """Return the typed words, and after the command's name those of the file `path`."""
        command = next((word for word in typed if not word.startswith("-")), None)
        asks_for_help = {"--help", "--help-all"} & set(typed)
        if command not in self.commands or asks_for_help:
            return typed
        config = read_config(path)
        if config is None:
            return typed
        file, content = config
        start = typed.index(command) + 1
        options = {name: _flags_of_options(self.commands[name]) for name in self.commands}
        added = config_words(file, content, command, options, typed[start:])
        if added:
            say(f"Options of {file}: {shlex.join(added)}")
        return [*typed[:start], *added, *typed[start:]]

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands in their order; without plugins if one is broken."""
        try:
            return [command.name for command in commands()]
        except SettingError as error:
            say(f"Error: {error}", "red")
            return [command.name for command in COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by name; end with an error if no command has that name."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            return command
        try:
            added = [c for c in added_commands() if c.name == cmd_name]
        except SettingError as error:
            return ctx.fail(str(error).rstrip("."))
        if not added:
            names = [*self.commands, *(c.name for c in added_commands()), *ELSEWHERE]
            similar = get_close_matches(cmd_name, names, 1, 0.5)
            hint = ""
            if similar:
                hint = f" Did you mean {similar[0]}?"
            self.suggest_commands = False  # newer versions of typer add a hint of their own
            ctx.fail(ELSEWHERE.get(cmd_name) or f"No such command {cmd_name!r}.{hint}")
        plugin_app = typer.Typer(callback=lambda: None)
        add_command(plugin_app, added[0])
        return typer.main.get_group(plugin_app).get_command(ctx, cmd_name)

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run the command line and exit the process; print a usage error as one line, not a box."""
        if not standalone_mode:
            return super().main(*args, standalone_mode=False, **extra)
        out_stream.problem = None
        try:
            status = super().main(*args, standalone_mode=False, **extra)
        except typer.Abort:
            ignore_stops()
            say("Interrupted. Nothing was done.")
            sys.exit(130)
        except OSError as error:  # the reader of --help went away, or its disk is full
            say(f"Error: standard output must take what is printed; {error.strerror or error}.")
            sys.exit(1)
        except Exception as error:
            # Older versions of typer take click's exceptions, newer ones their own.
            if not hasattr(error, "format_message"):
                raise
            usage_error: Any = error
            path = getattr(getattr(error, "ctx", None), "command_path", "datassay")
            line = usage_error.format_message()
            if "--sample-weight" in line:
                line = f"--sample-weight must be left out: {UNWEIGHTED}"
            if not line.endswith("?"):
                line = f"{line.rstrip('.')}."
            say(f"Error: {line} See {path} --help.", "red")
            sys.exit(usage_error.exit_code)
        is_printed = check_printed()
        if isinstance(status, int) and status:
            sys.exit(status)
        sys.exit(0 if is_printed else 1)


app = typer.Typer(
    name="datassay",
    cls=CommandGroup,
    help="Which training samples matter, and what to do about it.\n\n"
    "Example:\n  datassay run table.csv --target label --ids id",
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _flags_of_options(command: Any) -> dict[str, tuple[str, ...]]:
    """Return a command's options: name without dashes → its flags, (--on, --off) of a switch."""
    return {
        option.opts[0].lstrip("-"): (*option.opts[:1], *option.secondary_opts[:1])
        for option in command.params
        if option.opts[0].startswith("--") and not option.is_eager
    }


def _show_version(is_requested: bool) -> bool:
    if is_requested:
        out_console.print(f"datassay {datassay.__version__}")
        raise typer.Exit
    return is_requested


VERSION = typer.Option(
    "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
)


@app.callback()
def _start_logging(ctx: typer.Context, version: Annotated[bool, VERSION] = False) -> None:
    """Print the help where no command is named; else send log lines to standard error."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit(BAD_INPUT)
    from rich.logging import RichHandler  # with all that it loads, which --help can do without

    handler = RichHandler(console=err_console, show_time=False, show_path=False)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler])
    logging.getLogger("datassay").setLevel(logging.INFO)


def built_in_commands() -> list[Command]:
    """Return the commands of datassay.commands and datassay.methods, in the order of the help."""
    packages = ("datassay.commands", "datassay.methods")
    modules = [module for name in packages for module in folder_modules(name, "command")]
    lists = [c for module in modules for c in getattr(module, "COMMANDS", ())]
    singles = [module.COMMAND for module in modules if hasattr(module, "COMMAND")]
    return sorted([*lists, *singles], key=lambda command: command.order)


def added_commands() -> list[Command]:
    """Return the commands of other distributions: entry points of the group `datassay.commands`."""
    return checked_plugins("commands", Command, [command.name for command in COMMANDS])


def commands() -> list[Command]:
    """Return all commands, those of other distributions too, sorted by order."""
    return sorted([*COMMANDS, *added_commands()], key=lambda command: command.order)


COMMANDS = built_in_commands()
for _command in COMMANDS:
    add_command(app, _command)


def main() -> None:
    """Run the command line; hide warnings of libraries unless Python's options ask for them."""

    def report_thread_error(failed: threading.ExceptHookArgs) -> None:
        kind = failed.exc_type.__name__
        say(f"Error in a thread of its own: {kind}: {failed.exc_value}", "red")

    open_standard_streams()
    try:
        handle_stops()
        threading.excepthook = report_thread_error
        for stream in (sys.stdout, sys.stderr):
            # A label that the encoding of a terminal or pipe lacks must not end a finished run.
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        if not sys.warnoptions:
            warnings.simplefilter("ignore")
        if COMPLETION in os.environ:  # what `docs/install.md` tells a shell
            from typer.completion import completion_init

            completion_init()
        app()
    except KeyboardInterrupt as stop:  # before a command began
        ignore_stops()
        status, line = describe_error(stop)
        say(line)
        sys.exit(status)
    finally:
        close_quietly()
