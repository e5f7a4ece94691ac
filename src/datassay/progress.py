"""Progress reporting: one callback, `progress(step, done, total)`."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with the step's name, the units done and the units in all; must be cheap."""


def silent(step: str, done: int, total: int) -> None:
    """The progress callback that shows nothing."""


def part_of(progress: Progress, step: str, before: int, total: int) -> Progress:
    """A callback for one part of a longer step.

    Args:
        progress: the callback of the whole.
        step: the whole step's name.
        before: units done before this part.
        total: units in the whole step.

    Returns:
        A callback that adds the part's units to those before it, under the step's name.
    """
    return lambda _step, done, _total: progress(step, before + done, total)
