"""One thing that is wrong with data, as page, terminal and tables show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

Severity = Literal["act", "look", "fine"]
NAMED = 5  # columns or samples in a sentence


def named_ids(ids: Sequence[str] | np.ndarray) -> str:
    """The first few, and how many there are beyond them."""
    more = f" and {len(ids) - NAMED:,} more" * (len(ids) > NAMED)
    return ", ".join(str(one) for one in ids[:NAMED]) + more


@dataclass(frozen=True, slots=True)
class DataIssue:
    """One thing that is wrong with the data, or that may be.

    Attributes:
        kind: such as "near duplicates".
        severity: "act" on it, "look" at it, or it is "fine".
        count: how many there are.
        unit: of what: "rows", "samples", "columns", "images".
        sentence: what was found.
        n_groups: that they are in; 0: they are in none.
    """

    kind: str
    severity: Severity
    count: int
    unit: str
    sentence: str
    n_groups: int = 0

    @property
    def counted(self) -> str:
        """How many of what, in how many groups."""
        one = {"classes": "class", "properties": "property"}.get(self.unit, self.unit[:-1])
        unit = one if self.count == 1 else self.unit
        within = f" in {self.n_groups:,} group{'s' * (self.n_groups > 1)}" * (self.n_groups > 0)
        return f"{self.count:,} {unit}{within}"


def worst_first(*issues: DataIssue) -> tuple[DataIssue, ...]:
    """Those to act on first, in each severity the most frequent first."""
    worst = get_args(Severity).index
    return tuple(sorted(issues, key=lambda one: (worst(one.severity), -one.count)))
