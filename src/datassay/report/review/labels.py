"""The labels that are reviewed, and what is known of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from datassay.data.samples import SampleSet
from datassay.results import result
from datassay.score.neighbors.search import Alike, alike

MOST_TWINS = 4


@result
class Reviewed:
    """The labels of n samples as they are reviewed.

    Attributes:
        samples: with the labels that were judged.
        suggested: [n] class indices or numbers, or [n, k] of several targets.
        probability: [n], that the given label is wrong; nan where nobody knows.
        score: [n], higher is more suspect.
        is_issue: [n], which are suspected.
        digest: of the data, from `source_digest`; empty: not known.
        places: [n, d], where each sample lies to the network; None: not known.
        inputs: how the data were read, as `Origin.inputs` has it.
        twins: position → positions of equal and nearly equal samples.
    """

    samples: SampleSet
    suggested: np.ndarray
    probability: Float[np.ndarray, " n"]
    score: Float[np.ndarray, " n"]
    is_issue: Bool[np.ndarray, " n"]
    digest: str
    places: Shaped[np.ndarray, "n d"] | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    twins: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def relabels(self) -> str:
        """What a new label is: a "class", a "number", or "" where none can be given."""
        if self.samples.is_classification:
            return "class"
        is_log = bool(self.inputs.get("log_target"))  # nobody types logarithms
        return "number" if self.samples.y.ndim == 1 and not is_log else ""

    def alike(self, positions: Int[np.ndarray, " m"]) -> Alike | None:
        """The samples most like some; None where that is not known."""
        if self.places is None:
            return None
        if not self.samples.is_classification:
            return alike(self.places, positions)
        return alike(self.places, positions, self.samples.y, self.suggested)

    @property
    def order(self) -> Int[np.ndarray, " n"]:
        """Positions, the most suspect first."""
        return np.argsort(-np.nan_to_num(self.score, nan=-np.inf), kind="stable")


def twins_of(
    ids: np.ndarray, group: Int[np.ndarray, " n"], pairs: Iterable[tuple[str, str]]
) -> dict[int, tuple[int, ...]]:
    """Which samples are equal or nearly equal to which.

    Args:
        ids: [n].
        group: [n], equal samples share a number; −1: none is equal.
        pairs: ids, as texts, of near duplicates among these samples.

    Returns:
        Position → positions of at most four others; without samples that have none.
    """
    place = {str(one): i for i, one in enumerate(ids.tolist())}
    found: dict[int, list[int]] = {}
    order = np.argsort(group, kind="stable")
    equal = order[np.searchsorted(group[order], 0) :]
    for members in np.split(equal, np.flatnonzero(np.diff(group[equal])) + 1):
        for i in members.tolist():
            found[i] = [int(j) for j in members[: MOST_TWINS + 1] if j != i]
    for first, second in pairs:
        if (i := place.get(first)) is not None and (j := place.get(second)) is not None:
            found.setdefault(i, []).append(j)
            found.setdefault(j, []).append(i)
    return {i: tuple(dict.fromkeys(others))[:MOST_TWINS] for i, others in found.items() if others}
