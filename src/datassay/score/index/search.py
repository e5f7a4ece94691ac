"""Effects of the rows of an index on queries' rows: the largest, or all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from datassay.machine import available_memory
from datassay.progress import Progress
from datassay.score.effects import TopEffects
from datassay.score.index.segment import Segment

# Share of the free memory that rows are held in; queries, and pairs with samples, at once.
HELD_SHARE, QUERY_GROUP, PAIRS = 0.25, 1024, 512
# Samples that are compared at once, in groups of which the best one is looked at first; fewer
# queries than this are compared in float32, where turning the rows into bfloat16 takes longer.
ROWS_AT_ONCE, GROUPED, FEW = 8192, 16, 256


def blocks(
    segments: Sequence[Segment], progress: Progress, step: str
) -> Iterator[tuple[int, Float[Tensor, "b width"]]]:
    """All rows, chunk by chunk: the position of its first sample, and its rows."""
    total, start = sum(s.n for s in segments), 0
    hold = 4 * total * segments[0].width < HELD_SHARE * available_memory()
    for segment in segments:
        for chunk in segment.store.chunks:
            yield start, segment.rows(chunk, hold=hold)
            start += len(chunk)
            progress(step, start, total)


def largest(
    segments: Sequence[Segment],
    asked: Float[Tensor, "m width"],
    scale: float,
    top: int,
    progress: Progress,
) -> tuple[TopEffects, Float[np.ndarray, " n"]]:
    """The samples that raise and lower each query most, and each sample's sum over all queries."""
    # asked: rows of the queries. scale: of an effect −scale cᵢᵀcⱼ.
    # Cost: 2 n m width operations, and the rows read once. Where the processor multiplies bfloat16
    # itself, they are compared in that first, and a quarter more samples than are asked for once
    # more in float32.
    n, m = sum(s.n for s in segments), len(asked)
    keep, fast = min(top, n), m >= FEW and has_bfloat16()
    kept = min(n, keep + keep // 4 + 1) if fast else keep
    best = [_Best(m, kept, largest=side) for side in (True, False)]
    total, towards = np.empty(n), asked.double().sum(0).float()
    given = asked * -scale
    compared = given.bfloat16() if fast else given
    parts = blocks(segments, progress, "compare with the index")
    for start, rows in _many(parts) if m >= FEW else parts:
        total[start : start + len(rows)] = -scale * (rows @ towards).double().numpy()
        with_ = rows.bfloat16() if fast else rows
        for first in range(0, m, QUERY_GROUP):
            part = slice(first, first + QUERY_GROUP)
            effect = (compared[part] @ with_.T).float()
            for side in best:
                side.see(part, effect, start)
    if fast:
        for start, rows in _many(blocks(segments, progress, "compare the largest again")):
            for side in best:
                side.again(start, rows, given)
    (raising, who), (lowering, whom) = (side.found(keep) for side in best)
    return TopEffects(who, raising, whom, lowering), total


def _many(
    parts: Iterator[tuple[int, Float[Tensor, "b width"]]],
) -> Iterator[tuple[int, Float[Tensor, "b width"]]]:
    """Neighbouring chunks together."""
    held: list[Tensor] = []
    start = 0
    for first, rows in parts:
        start = start if held else first
        held.append(rows)
        if sum(map(len, held)) >= ROWS_AT_ONCE:
            yield start, torch.cat(held)
            held = []
    if held:
        yield start, torch.cat(held)


def has_bfloat16() -> bool:
    """Whether the processor has instructions for products in bfloat16."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _extreme(
    effect: Float[Tensor, "q b"], keep: int, *, largest: bool
) -> tuple[Float[Tensor, "q keep"], Tensor]:
    """Like `topk` along rows: the best are in those groups whose best one is among the best."""
    q, b = effect.shape
    whole = b // GROUPED * GROUPED
    if whole // GROUPED < 2 * keep:
        return effect.topk(keep, 1, largest=largest)
    grouped = effect[:, :whole].view(q, GROUPED, whole // GROUPED)
    best = grouped.amax(1) if largest else grouped.amin(1)
    groups = best.topk(keep, 1, largest=largest).indices
    inside = groups[:, None] + torch.arange(GROUPED)[:, None] * (whole // GROUPED)
    rest = torch.arange(whole, b).expand(q, -1)
    index = torch.cat([inside.flatten(1), rest], 1)
    result, order = effect.gather(1, index).topk(keep, 1, largest=largest)
    return result, index.gather(1, order)


class _Best:
    """The largest, or smallest, values of each query so far, sorted."""

    def __init__(self, m: int, keep: int, *, largest: bool):
        self._largest, self._keep = largest, keep
        fill = -torch.inf if largest else torch.inf
        self._values = torch.full((m, keep), fill)
        self._where = torch.zeros(m, keep, dtype=torch.int64)

    def see(self, part: slice, effect: Float[Tensor, "q b"], start: int) -> None:
        """Effects of the samples from `start` on."""
        result, index = _extreme(effect, min(self._keep, effect.shape[1]), largest=self._largest)
        values = torch.cat([self._values[part], result], 1)
        where = torch.cat([self._where[part], index + start], 1)
        self._values[part], order = values.topk(self._keep, 1, largest=self._largest)
        self._where[part] = where.gather(1, order)

    def again(
        self, start: int, rows: Float[Tensor, "b width"], asked: Float[Tensor, "m width"]
    ) -> None:
        """Those of them that are among the samples from `start` on, in float32."""
        here = (self._where >= start) & (self._where < start + len(rows))
        query, position = here.nonzero(as_tuple=True)
        sample = self._where[query, position] - start
        for part in torch.arange(len(query)).split(PAIRS):
            products = torch.linalg.vecdot(asked[query[part]], rows[sample[part]])
            self._values[query[part], position[part]] = products

    def found(self, keep: int) -> tuple[np.ndarray, np.ndarray]:
        """Values and positions, [m, keep]."""
        values, order = self._values.topk(keep, 1, largest=self._largest)
        return values.double().numpy(), self._where.gather(1, order).numpy()
