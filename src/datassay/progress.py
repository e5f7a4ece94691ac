"""Progress reporting: one callback, `progress(step, done, total)`; and the clock that ends work."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Progress = Callable[[str, int, int], None]
"""Called with the step's name, the units done and the total; must be cheap."""


def silent(step: str, done: int, total: int) -> None:
    """Report nothing: the default callback."""


def part_of(progress: Progress, step: str, n_before: int, total: int) -> Progress:
    """Return a callback for one part of a longer step, after `n_before` of its `total` units."""
    return lambda _step, done, _total: progress(step, n_before + done, total)


class OutOfTime(Exception):
    """The time that work was given is over."""


_END: ContextVar[float] = ContextVar("end", default=math.inf)


@contextmanager
def until(end: float) -> Iterator[None]:
    """Let `check_time` raise once `time.perf_counter` has reached `end`, in this context."""
    token = _END.set(end)
    try:
        yield
    finally:
        _END.reset(token)


def check_time(*_: object) -> None:
    """Raise `OutOfTime` once the time set by `until` is over; may serve as a callback."""
    if time.perf_counter() > _END.get():
        raise OutOfTime


def in_time(progress: Progress) -> Progress:
    """Return the same callback, which also raises `OutOfTime` once the time is over."""

    def report_in_time(step: str, done: int, total: int) -> None:
        check_time()
        progress(step, done, total)

    return report_in_time
