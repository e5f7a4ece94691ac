"""What every command shares: where it prints and how it fails."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import typer
from rich.console import Console

from datassay.errors import DatassayError

# What a user named (a file, a class) prints as it is: no markup, no :emoji:, no coloured numbers.
out_console = Console(markup=False, emoji=False, highlight=False)
err_console = Console(markup=False, emoji=False, highlight=False, stderr=True)


def exits_clearly(command: Callable[..., None]) -> Callable[..., None]:
    """Bad input: one line and status 2. Interruption: one line and status 130. No traceback."""

    @functools.wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except DatassayError as error:
            err_console.print(f"Error: {error}", style="red", soft_wrap=True)
            raise typer.Exit(2) from error
        except KeyboardInterrupt as stop:
            err_console.print("Interrupted. Earlier results are as they were.")
            raise typer.Exit(130) from stop

    return guarded
