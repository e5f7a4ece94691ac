"""Errors that datassay raises on bad input; each message tells the user what to do."""

from __future__ import annotations


class DatassayError(ValueError):
    """Bad input. The message names the argument, the rule, the value got and the remedy.

    The command line prints only the message and exits with status 2.
    """


class DataError(DatassayError):
    """The samples cannot be used: unreadable, malformed, too few, not finite."""


class ModelError(DatassayError):
    """The network cannot be used with these samples, or torch.func cannot differentiate it."""


class SettingError(DatassayError):
    """A setting is outside its rule: a step size beyond stability, an unknown name."""
