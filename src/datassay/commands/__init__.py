"""The command line: `app` for tests and other programs, `main` for the shell."""

from datassay.commands.app import app, main

__all__ = ["app", "main"]
