"""Progress reporting: one callback, `progress(step, done, total)`."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with the step's name, the units done and the total; must be cheap."""


def silent(step: str, done: int, total: int) -> None:
    """Report nothing: the default callback."""


def part_of(progress: Progress, step: str, before: int, total: int) -> Progress:
    """Callback for one part of a longer step.

    Args:
        progress: callback of the whole step.
        step: the whole step's name.
        before: units done before this part.
        total: units in the whole step.

    Returns:
        A callback that reports `before` plus the part's own units, under the whole step's name.
    """
    return lambda _step, done, _total: progress(step, before + done, total)
