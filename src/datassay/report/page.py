"""A page: what it holds, before anything is drawn."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One class or source as a line of a table; every text is plain and not yet escaped.

    Attributes:
        name: of the class or source.
        cells: count, total, mean with its interval, median, share, information as one ("–" where
            it was not computed) and suspects, ready to print.
    """

    name: str
    cells: tuple[str, ...]
