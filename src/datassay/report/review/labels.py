"""The labels that are reviewed, what is known of them, and what a page says before it draws."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from datassay.act.review.decisions import JOINED, NONE, label_word
from datassay.data.samples import SampleSet
from datassay.optional import text_if
from datassay.report.wording import label_text, labels_given, quantity
from datassay.results import result
from datassay.score.neighbors.search import Alike, find_alike

MOST_NEAR_DUPLICATES = 4


@result
class Reviewed:
    """The labels of n samples under review."""

    samples: SampleSet  # with the labels that were judged
    suggested: np.ndarray  # [n] class indices or numbers, or [n, k] of several targets
    # [n], that the given label is wrong; nan where nobody knows
    probability: Float[np.ndarray, " n"]
    score: Float[np.ndarray, " n"]  # [n], higher is more suspect
    is_issue: Bool[np.ndarray, " n"]  # suspected: probably wrong
    worth_a_look: Bool[np.ndarray, " n"]  # to review: those and the next most suspect
    digest: str  # of the data, from `source_digest`; empty: not known
    # [n, d], where each sample lies to the network; None: not known
    coordinates: Shaped[np.ndarray, "n d"] | None = None
    # how the data were read, as `Origin.inputs` has it
    inputs: Mapping[str, Any] = field(default_factory=dict)
    # position → positions of equal and nearly equal samples
    near_duplicates: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def relabels(self) -> str:
        """What a new label is: a "class", a "number", a "set", or "" where none can be given."""
        if self.samples.is_classification:
            return "class"
        names = self.samples.target_names
        if names and self.samples.has_several_labels:
            return text_if(not any(JOINED in name or name == NONE for name in names), "set")
        is_log = bool(self.inputs.get("log_target"))  # nobody types logarithms
        return text_if(self.samples.y.ndim == 1 and not is_log, "number")

    def most_alike(self, positions: Int[np.ndarray, " m"]) -> Alike | None:
        """Return the nearest samples of those at `positions`; None if coordinates are unknown."""
        if self.coordinates is None:
            return None
        if not self.samples.is_classification:
            return find_alike(self.coordinates, positions)
        return find_alike(self.coordinates, positions, self.samples.y, self.suggested)

    @property
    def order(self) -> Int[np.ndarray, " n"]:
        """Positions, the most suspect first."""
        return np.argsort(-np.nan_to_num(self.score, nan=-np.inf), kind="stable")


def near_duplicates_of(
    ids: np.ndarray, group: Int[np.ndarray, " n"], pairs: Iterable[tuple[str, str]]
) -> dict[int, tuple[int, ...]]:
    """Return position → positions of samples equal (same group ≥ 0) or near-equal (pairs)."""
    position_of = {str(sample_id): i for i, sample_id in enumerate(ids.tolist())}
    neighbours_of: dict[int, list[int]] = {}
    order = np.argsort(group, kind="stable")
    grouped = order[group[order] >= 0]
    for members in np.split(grouped, np.flatnonzero(np.diff(group[grouped])) + 1):
        for i in members.tolist():
            neighbours_of[i] = [int(j) for j in members[: MOST_NEAR_DUPLICATES + 1] if j != i]
    for id1, id2 in pairs:
        if id1 in position_of and id2 in position_of:
            i = position_of[id1]
            j = position_of[id2]
            neighbours_of.setdefault(i, []).append(j)
            neighbours_of.setdefault(j, []).append(i)
    return {
        i: tuple(dict.fromkeys(neighbours))[:MOST_NEAR_DUPLICATES]
        for i, neighbours in neighbours_of.items()
        if neighbours
    }


def listing(reviewed: Reviewed, rows: Int[np.ndarray, " m"]) -> dict[str, Any]:
    """Return the review's content without drawings: lists [m] per column, and its facts."""
    samples = reviewed.samples
    chance = reviewed.probability[rows]
    rank = np.empty(len(samples), np.int64)
    rank[reviewed.order] = np.arange(len(samples))
    key = hashlib.sha256(reviewed.digest.encode())
    key.update(str(samples.ids.tolist()).encode())
    key.update(np.ascontiguousarray(samples.y).tobytes())
    columns: dict[str, Any] = {
        "id": [str(sample_id) for sample_id in samples.ids[rows].tolist()],
        "given": label_values(reviewed, samples.y[rows], 12),
        "suggested": _format_suggestions(reviewed, rows),
        "wrong": [None if np.isnan(p) else p for p in np.round(chance, 4).tolist()],
        "suspect": reviewed.worth_a_look[rows].astype(int).tolist(),
        "order": np.argsort(rank[rows], kind="stable").tolist(),
        "source": None,
        "sources": [],
    }
    if samples.source is not None:
        sources, codes = np.unique(samples.source[rows].astype(str), return_inverse=True)
        columns |= {"source": codes.tolist(), "sources": sources.tolist()}
    return columns | {
        "name": samples.name,
        "digest": reviewed.digest,
        "inputs": dict(reviewed.inputs),
        # A browser keeps the decisions under this key, of these samples and labels alone.
        "key": key.hexdigest(),
        "kind": samples.kind,
        "classes": list(samples.class_names),
        "relabels": reviewed.relabels,
        "integer_ids": samples.ids.dtype.kind in "iu",
    }


def _format_suggestions(reviewed: Reviewed, rows: Int[np.ndarray, " m"]) -> list[Any]:
    """Return suggested labels for the page, rounded unless they differ by a whole factor."""
    samples = reviewed.samples
    suggested = reviewed.suggested[rows]
    if samples.is_classification or samples.y.ndim > 1:
        return label_values(reviewed, suggested, 6)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.abs(samples.y[rows] / suggested)
        factor = np.maximum(ratio, 1 / ratio)
        is_exact = np.abs(factor - np.round(factor)) < 1e-9 * factor
    values = [
        v if exact else float(quantity(v)) for v, exact in zip(suggested, is_exact, strict=True)
    ]
    return label_values(reviewed, np.array(values), 12)


def label_values(reviewed: Reviewed, values: np.ndarray, digits: int) -> list[Any]:
    """Return labels as the page's script takes them, [m]: class indices, or texts."""
    samples = reviewed.samples
    if samples.is_classification:
        return values.tolist()
    if values.ndim == 1:
        return [label_word((), float(f"{v:.{digits}g}")) for v in values.tolist()]
    if samples.has_several_labels:
        return [labels_given(row, samples.target_names) for row in values]
    return [label_text((), row) for row in values]
