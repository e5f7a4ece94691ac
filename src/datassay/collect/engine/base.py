"""Engines that compute the pieces of a pass: in this process, local processes or a Ray cluster.

A piece is a pure function of shared, read-only values and a number or slice. Results come back in
the pieces' order, sums are taken along one fixed tree, and every piece uses the same number of
threads: results are bit-identical on every engine, also after a worker died and was replaced.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from torch import Tensor

Result = TypeVar("Result")


class Engine:
    """An engine that computes pieces in this process; shared values must not change meanwhile."""

    def map(
        self, function: Callable[[Any, Any], Result], shared: Any, pieces: Sequence[Any]
    ) -> Iterator[Result]:
        """Return function(shared, piece) for each piece, in order; a single one runs here."""
        if len(pieces) < 2:
            return (function(shared, piece) for piece in pieces)
        return self._map(function, shared, pieces)

    def sum(
        self,
        function: Callable[[Any, Any], Tensor],
        shared: Any,
        pieces: Sequence[Any],
        done: Callable[[Any], object],
    ) -> Tensor:
        """Return Σ function(shared, piece), added in `tree_sum`'s order."""
        # `done` is called with each piece in order; at most 1 + log₂(pieces) partial sums are held.

        def report_pieces() -> Iterator[Tensor]:
            for piece, value in zip(pieces, self.map(function, shared, pieces), strict=True):
                done(piece)
                yield value

        return tree_sum(report_pieces(), operator.iadd)

    def _map(
        self, function: Callable[[Any, Any], Result], shared: Any, pieces: Sequence[Any]
    ) -> Iterator[Result]:
        """Compute two pieces or more, as `map` does."""
        return (function(shared, piece) for piece in pieces)

    def __reduce__(self) -> str | tuple:  # inside a worker: in process
        return Engine, ()


IN_PROCESS = Engine()


def tree_sum(values: Iterable[Result], add: Callable[[Result, Result], Result]) -> Result:
    """Return the sum, added pairwise in a fixed order: of five, ((0 + 1) + (2 + 3)) + 4."""
    waiting: list[Result] = []
    for number, value in enumerate(values, 1):
        while number % 2 == 0:
            value = add(waiting.pop(), value)
            number = number // 2
        waiting.append(value)
    total = waiting.pop()
    while waiting:
        total = add(waiting.pop(), total)
    return total
