"""Progress reporting: one callback, `progress(step, done, total)`."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with the step's name, the units done and the total; must be cheap."""


def silent(step: str, done: int, total: int) -> None:
    """Report nothing: the default callback."""


def part_of(progress: Progress, step: str, before: int, total: int) -> Progress:
    """Callback for one part of a longer step."""
    return lambda _step, done, _total: progress(step, before + done, total)
