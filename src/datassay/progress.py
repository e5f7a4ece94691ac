"""How long work reports where it is: one callback, `progress(step, done, total)`."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with the step's name, the units done and the units in all; must be cheap."""


def silent(step: str, done: int, total: int) -> None:
    """The progress callback that shows nothing."""
