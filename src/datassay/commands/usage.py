"""Wrong usage of the command line is told like any bad input: in one line, with status 2."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from datassay.commands.shell import ignore_stops, out_stream, printed, say


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


class OnceCommand(TyperCommand):
    """A command that refuses an option given twice: silently, only the last would count."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options."""
        if args or not self.no_args_is_help:
            order = self.make_parser(ctx).parse_args(args=list(args))[2]
            for parameter, times in Counter(map(id, order)).items():
                found = next(p for p in order if id(p) == parameter)
                if times > 1 and not getattr(found, "multiple", True):
                    ctx.fail(f"{found.opts[0]} must be given once; it was given {times} times.")
        return super().parse_args(ctx, args)
