"""One thing that is wrong with data, as page, terminal and tables show it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from datassay.optional import text_if

Severity = Literal["act", "look", "fine"]
NAMED = 5  # columns or samples in a sentence


def named_ids(ids: Sequence[str] | np.ndarray) -> str:
    """Return the first NAMED ids, and the number of the others, as a phrase."""
    rest_text = text_if(len(ids) > NAMED, f" and {len(ids) - NAMED:,} more")
    return ", ".join(map(str, ids[:NAMED])) + rest_text


@dataclass(frozen=True, slots=True)
class DataIssue:
    """One thing that is wrong with the data, or that may be.

    Attributes:
        kind: such as "near duplicates".
        severity: "act" on it, "look" at it, or it is "fine".
        count: how many there are.
        unit: of what: "rows", "samples", "columns", "images".
        sentence: what was found.
        n_groups: number of groups that they are in; 0: they are in none.
    """

    kind: str
    severity: Severity
    count: int
    unit: str
    sentence: str
    n_groups: int = 0

    @property
    def counted(self) -> str:
        """The count with its unit and number of groups, such as "3 rows in 1 group"."""
        singular = {"classes": "class", "properties": "property"}.get(self.unit, self.unit[:-1])
        unit = singular
        if self.count != 1:
            unit = self.unit
        groups = text_if(
            self.n_groups, f" in {self.n_groups:,} group{text_if(self.n_groups > 1, 's')}"
        )
        return f"{self.count:,} {unit}{groups}"


def worst_first(*issues: DataIssue) -> tuple[DataIssue, ...]:
    """Sort issues by severity, those to act on first, and then the most frequent first."""
    rank = get_args(Severity).index
    return tuple(sorted(issues, key=lambda issue: (rank(issue.severity), -issue.count)))
