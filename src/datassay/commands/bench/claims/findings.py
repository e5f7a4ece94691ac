"""What `datassay bench` measured, gathered for its table and summary."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measured:
    """One claim, measured.

    Attributes:
        what: our work, with its size.
        rival: what it was compared with.
        seconds: ours.
        rival_seconds: the rival's; where it did a part of the work, times the whole over the part.
        figure: what the answers were compared by; differences are shares of the largest value.
        value: ours, or how far both agree.
        rival_value: the rival's; None where `value` says how far both agree.
    """

    what: str
    rival: str
    seconds: float
    rival_seconds: float
    figure: str
    value: float
    rival_value: float | None = None

    @property
    def ratio(self) -> float:
        """How many times the rival's seconds are ours."""
        return self.rival_seconds / self.seconds


@dataclass(frozen=True, slots=True)
class BenchFindings:
    """What was measured, and on what.

    Attributes:
        cases: name → what was measured, in the order they ran.
        facts: machine, threads, rates of matrix products, versions, seed, command.
    """

    cases: dict[str, Measured]
    facts: dict[str, str]
