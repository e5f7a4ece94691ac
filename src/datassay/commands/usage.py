"""Wrong usage of the command line is told like any bad input: in one line, with status 2."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from datassay.commands.shell import ignore_stops, out_stream, printed, say
from datassay.setting import sentence_of

OF = "of:"  # stands before the source of an option's sentence


class HelpedCommand(TyperCommand):
    """A command whose help ends with what is known only when it is shown."""

    more: Callable[[], str]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help; where FORMATS stands, those of data that are known, plugins' too."""
        from datassay.data.formats import in_words

        for parameter in self.params:
            text = str(getattr(parameter, "help", ""))
            if text.startswith(OF):
                source, _, more = text.removeprefix(OF).partition(" ")
                text = f"{sentence_of(source)} {more}".strip().replace("[", r"\[")
            if "FORMATS" in text:
                text = text.replace("FORMATS", in_words())
            vars(parameter)["help"] = text
        self.epilog = self.more() or None
        super().format_help(ctx, formatter)


class OneLineGroup(TyperGroup):
    """The command line: an unknown command or option costs one line, not a box of several."""

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run it; ends the process unless that is not wanted."""
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
            self._tell(error)
        whole = printed()
        sys.exit(status if isinstance(status, int) and status else 0 if whole else 1)

    def _tell(self, error: Any) -> None:
        if type(error).__name__ != "NoArgsIsHelpError":  # that one has shown the help
            path = getattr(getattr(error, "ctx", None), "command_path", "datassay")
            message = error.format_message().rstrip(".")
            say(f"Error: {message}. See {path} --help.", "red")
        sys.exit(error.exit_code)
