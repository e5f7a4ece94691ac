"""What the experiments found, gathered for page and summary."""

from __future__ import annotations

from dataclasses import dataclass

from datassay_lab.record import Record


@dataclass(frozen=True, slots=True)
class LabFindings:
    """Experiments that were run.

    Attributes:
        records: in the order of the course.
        facts: what was run, name to value, in the order to show.
    """

    records: tuple[Record, ...]
    facts: dict[str, str]
