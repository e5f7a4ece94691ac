"""The errors that datassay raises on bad input, each one sentence a user can act on."""

from __future__ import annotations


class DatassayError(ValueError):
    """Bad input: the message names what, the rule, the value got and the remedy.

    The command line prints the message alone and exits with status 2.
    """


class DataError(DatassayError):
    """The samples cannot be used: unreadable, malformed, too few, not finite."""


class ModelError(DatassayError):
    """The network cannot be used with these samples, or torch.func cannot differentiate it."""


class SettingError(DatassayError):
    """A setting is outside its rule: a step size beyond stability, an unknown name."""
