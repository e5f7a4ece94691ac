"""Who won here: a ranking beside its trivial rivals on the same measure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Contest:
    """One measure, every ranking's value on it, and the winner in words.

    Attributes:
        measure: what is measured and which way is better, in plain words.
        rankings: [r] names; the first is ours.
        values: [r], higher is better, unit as `measure` says.
        spreads: [r], standard deviation over seeds; 0 where there is only one value.
        verdict: one sentence naming who won and by how much, a tie said to be one.
    """

    measure: str
    rankings: tuple[str, ...]
    values: tuple[float, ...]
    spreads: tuple[float, ...]
    verdict: str
