"""Samples of a review drawn: each large, and small those most like it."""

import shlex
from collections.abc import Mapping
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Int

from datassay.report.drawing import SHORT, Draw, drawer, shown_texts
from datassay.report.html import markup, packed_json
from datassay.report.page import Partial
from datassay.report.review.labels import Reviewed, label_values, listing
from datassay.report.wording import count, value_text
from datassay.score.checks.columns import columns_first
from datassay.score.neighbors.search import SIDES, Alike

TEXT_AREA, MOST_COLUMNS = 20, 24  # pixels of a picture in whose place a character is shown
SCRIPTS = ("elements.js", "review_store.js", "review_cards.js", "review_grid.js", "review_place.js",
           "review_top.js", "review_finish.js", "review.js")  # fmt: skip
MOST_IN_PAGE = 200  # samples that a page without a server holds
LARGE, SMALL = 240, 72  # pixels of its pictures


class Showcase:
    """Draws samples for a review: each large, and small those most like it."""

    def __init__(self, reviewed: Reviewed):
        self._reviewed = reviewed
        self._columns = columns_first(reviewed.samples)[:MOST_COLUMNS]

    @cached_property
    def _draw(self) -> Draw:
        return drawer(self._reviewed.samples)

    def with_suggestions(self, reviewed: Reviewed) -> "Showcase":
        """Return a showcase of the same samples with other suggested labels."""
        showcase = copy(self)
        showcase._reviewed = reviewed
        return showcase

    def pictures(self, positions: Int[np.ndarray, " m"], side: int) -> list[dict[str, Any]]:
        """Return a drawing of each sample: {"text"}, {"values"} or {"image"}, [m]."""
        samples = self._reviewed.samples
        texts = shown_texts(samples)
        if texts is not None:
            limit = side**2 // TEXT_AREA  # 2,880 in a page, 20,480 from a server
            contents = (str(texts[int(i)]) for i in positions)
            return [{"text": c if len(c) <= limit else f"{c[:limit]}…"} for c in contents]
        if self._columns and samples.rows is not None and samples.kind != "image":
            rows = samples.rows.select(self._columns).take(positions).to_pylist()
            return [
                {"values": [[name, value_text(v, SHORT) or "missing"] for name, v in row.items()]}
                for row in rows
            ]
        drawings = self._draw(positions, side)
        return [{"image": d.image} if d.image else {"values": d.values} for d in drawings]

    def details(
        self, positions: Int[np.ndarray, " m"], large: int, small: int
    ) -> list[dict[str, Any]]:
        """Return a large drawing of each sample, with small ones of similar samples, [m]."""
        neighbours = self._reviewed.most_alike(positions)
        groups = [self._find_similar(neighbours, row, int(i)) for row, i in enumerate(positions)]
        members = sorted({j for lists in groups for _, indices, _ in lists for j in indices})
        pictures = dict(zip(members, self.pictures(np.array(members, int), small), strict=True))

        def group(heading: str, idx: list[int], distances: list[float | None]) -> dict[str, Any]:
            pairs = zip(idx, distances, strict=True)
            return {"heading": heading, "samples": [self._show(*pair, pictures) for pair in pairs]}

        return [
            {"drawing": picture, "groups": [group(*triple) for triple in triples]}
            for picture, triples in zip(self.pictures(positions, large), groups, strict=True)
        ]

    def _find_similar(
        self, neighbours: Alike | None, row: int, i: int
    ) -> list[tuple[str, list[int], list[float | None]]]:
        """Return (heading, positions, distances) of each kind of sample similar to sample i."""
        reviewed = self._reviewed
        names = reviewed.samples.class_names
        groups = []
        near_duplicates = reviewed.near_duplicates.get(i)
        if near_duplicates:
            distances: list[float | None] = [None] * len(near_duplicates)
            groups.append(("Equal or nearly equal", list(near_duplicates), distances))
        if neighbours is None:
            return groups
        has_suggestion = names and reviewed.suggested[i] != reviewed.samples.y[i]
        for side, nearest in enumerate(neighbours.nearest[row]):
            members = [j for j in nearest.tolist() if j >= 0]
            distances = neighbours.distance[row, side, : len(members)].tolist()
            heading = "Most alike"
            if len(neighbours.nearest[row]) == len(SIDES):
                if side == 0:
                    heading += f", labelled {names[int(reviewed.samples.y[i])]}"
                elif has_suggestion:
                    heading += f", labelled {names[int(reviewed.suggested[i])]}"
                else:
                    heading += ", others"
            groups.append((heading, members, distances))
        return groups

    def _show(self, j: int, distance: float | None, pictures: Mapping[int, Any]) -> dict[str, Any]:
        """Return a small card of sample j, with its distance from the sample shown."""
        reviewed = self._reviewed
        samples = self._reviewed.samples
        (label,) = label_values(reviewed, samples.y[[j]], 6)
        return {
            "id": str(samples.ids[j]),
            "label": samples.class_names[label] if samples.class_names else str(label),
            "suspect": bool(reviewed.is_issue[j]),
            "distance": None if distance is None else float(f"{distance:.3g}"),
            "drawing": pictures[j],
        }


def review_block(reviewed: Reviewed, positions: Int[np.ndarray, " m"]) -> Partial:
    """Return the block of a page in which labels are reviewed, without a server."""
    rows = positions[:MOST_IN_PAGE]
    n = len(positions)
    command = ["datassay", "apply", str(reviewed.inputs.get("data", "DATA")), "decisions.json"]
    data = listing(reviewed, rows) | {"apply": shlex.join([*command, "--out", "corrected"])}
    data |= {"details": Showcase(reviewed).details(rows, LARGE, SMALL)}
    if n == len(rows):
        scope = count(n, "sample")
    else:
        scope = f"the {len(rows)} most suspect of {n:,}"
    context = {"data": markup(packed_json(data)), "which": scope, "n": n}
    return Partial("review.html", context, script=SCRIPTS)
