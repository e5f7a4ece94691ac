"""What a call reports while it works: each step from its first unit to its last."""

from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from typing import Any


def counted(call: Callable[..., Any], *arguments: Any, **settings: Any) -> tuple[Any, dict]:
    """Return what a call gives, and how often it reported each step, of how many units."""
    reports = defaultdict(list)

    def progress(step: str, done: int, total: int) -> None:
        reports[step].append((done, total))

    result = call(*arguments, **settings, progress=progress)
    for step, pairs in reports.items():
        totals, done = {total for _, total in pairs}, [done for done, _ in pairs]
        assert len(totals) == 1 and min(done) >= 0 and done[-1] == max(totals), (step, pairs)
        assert all(a < b or a == max(totals) for a, b in pairwise(done)), (step, pairs)
    return result, {step: (len(pairs), pairs[-1][1]) for step, pairs in reports.items()}
