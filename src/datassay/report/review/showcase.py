"""Samples of a review drawn: each large, and small those most like it."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Int

from datassay.report.drawing import SHORT, Draw, drawer, shown_texts
from datassay.report.html import markup, script_json
from datassay.report.page import Partial
from datassay.report.review.labels import Reviewed, label_values, listing
from datassay.report.wording import count, value_text
from datassay.score.checks.columns import columns_first
from datassay.score.neighbors.search import SIDES, Alike

LONGEST_TEXT, MOST_COLUMNS = 20_000, 40
SCRIPTS = ("elements.js", "review_store.js", "review_cards.js", "review_grid.js", "review_place.js",
           "review.js")  # fmt: skip
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

    def beside(self, reviewed: Reviewed) -> Showcase:
        """The same samples where other labels are suggested; nothing is computed again."""
        other = copy(self)
        other._reviewed = reviewed
        return other

    def pictures(self, positions: Int[np.ndarray, " m"], side: int) -> list[dict[str, Any]]:
        """Each sample drawn."""
        samples = self._reviewed.samples
        if (texts := shown_texts(samples)) is not None:
            return [{"text": str(texts[int(i)])[:LONGEST_TEXT]} for i in positions]
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
        """Each sample large, and beside it those that are like it."""
        near = self._reviewed.alike(positions)
        groups = [self._groups(near, row, int(i)) for row, i in enumerate(positions)]
        further = sorted({j for of in groups for _, who, _ in of for j in who})
        drawn = dict(zip(further, self.pictures(np.array(further, int), small), strict=True))

        def group(heading: str, who: list[int], apart: list[float | None]) -> dict[str, Any]:
            pairs = zip(who, apart, strict=True)
            return {"heading": heading, "samples": [self._small(*one, drawn) for one in pairs]}

        return [
            {"drawing": picture, "groups": [group(*one) for one in of]}
            for picture, of in zip(self.pictures(positions, large), groups, strict=True)
        ]

    def _groups(
        self, near: Alike | None, row: int, i: int
    ) -> list[tuple[str, list[int], list[float | None]]]:
        """(heading, positions, distances): of one sample."""
        reviewed = self._reviewed
        names, results = reviewed.samples.class_names, []
        if near_duplicates := reviewed.near_duplicates.get(i):
            results.append((
                "Equal or nearly equal",
                list(near_duplicates),
                [None] * len(near_duplicates),
            ))
        if near is None:
            return results
        other = names and reviewed.suggested[i] != reviewed.samples.y[i]
        for side, nearest in enumerate(near.nearest[row]):
            who = [j for j in nearest.tolist() if j >= 0]
            apart: list[float | None] = near.distance[row, side, : len(who)].tolist()
            heading = "Most alike"
            if len(near.nearest[row]) == len(SIDES):
                label = reviewed.samples.y[i] if side == 0 else reviewed.suggested[i]
                heading += f", labelled {names[int(label)]}" if side == 0 or other else ", others"
            results.append((heading, who, apart))
        return results

    def _small(self, j: int, apart: float | None, drawn: Mapping[int, Any]) -> dict[str, Any]:
        reviewed, samples = self._reviewed, self._reviewed.samples
        (label,) = label_values(reviewed, samples.y[[j]], 6)
        return {
            "id": str(samples.ids[j]),
            "label": samples.class_names[label] if samples.class_names else str(label),
            "suspect": bool(reviewed.worth_a_look[j]),
            "distance": None if apart is None else float(f"{apart:.3g}"),
            "drawing": drawn[j],
        }


def review_block(reviewed: Reviewed, chosen: Int[np.ndarray, " m"]) -> Partial:
    """The review as a block of a page, which works without a server."""
    rows, n = chosen[:MOST_IN_PAGE], len(chosen)
    data = listing(reviewed, rows) | {"details": Showcase(reviewed).details(rows, LARGE, SMALL)}
    which = count(n, "sample") if n == len(rows) else f"the {len(rows)} most suspect of {n:,}"
    context = {"data": markup(script_json(data)), "which": which, "n": n}
    return Partial("review.html", context, script=SCRIPTS)
