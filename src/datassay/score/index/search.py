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
HELD_SHARE = 0.25
QUERY_GROUP = 1024
PAIRS = 512
# Samples that are compared at once, in groups of which the best one is looked at first; fewer
# queries than this are compared in float32, where turning the rows into bfloat16 takes longer.
ROWS_AT_ONCE = 8192
GROUPED = 16
FEW = 256


def blocks(
    segments: Sequence[Segment], progress: Progress, step: str
) -> Iterator[tuple[int, Float[Tensor, "b width"]]]:
    """Yield all rows, chunk by chunk: the position of the chunk's first sample, and its rows."""
    total = sum(s.n for s in segments)
    start = 0
    hold = 4 * total * segments[0].width < HELD_SHARE * available_memory()
    for segment in segments:
        for chunk in segment.store.chunks:
            yield start, segment.rows(chunk, hold=hold)
            start += len(chunk)
            progress(step, start, total)


def largest(
    segments: Sequence[Segment],
    q_rows: Float[Tensor, "m width"],
    scale: float,
    top: int,
    progress: Progress,
) -> tuple[TopEffects, Float[np.ndarray, " n"]]:
    """Find the samples that raise and lower each query most, and each sample's sum of effects."""
    # asked: rows of the queries. scale: of an effect −scale cᵢᵀcⱼ.
    # Cost: 2 n m width operations, and the rows read once. Where the processor multiplies bfloat16
    # itself, they are compared in that first, and a quarter more samples than are asked for once
    # more in float32.
    n = sum(s.n for s in segments)
    m = len(q_rows)
    keep = min(top, n)
    is_fast = m >= FEW and has_bfloat16()
    n_candidates = keep
    if is_fast:
        n_candidates = min(n, keep + keep // 4 + 1)
    sides = [_Best(m, n_candidates, largest=side) for side in (True, False)]
    total = np.empty(n)
    towards = q_rows.double().sum(0).float()
    scaled = q_rows * -scale
    operand = scaled
    if is_fast:
        operand = scaled.bfloat16()
    parts = blocks(segments, progress, "compare with the index")
    for start, rows in _merge_chunks(parts) if m >= FEW else parts:
        total[start : start + len(rows)] = -scale * (rows @ towards).double().numpy()
        factor = rows
        if is_fast:
            factor = rows.bfloat16()
        for begin in range(0, m, QUERY_GROUP):
            queries = slice(begin, begin + QUERY_GROUP)
            effect = (operand[queries] @ factor.T).float()
            for side in sides:
                side.update(queries, effect, start)
    if is_fast:
        for start, rows in _merge_chunks(blocks(segments, progress, "compare the largest again")):
            for side in sides:
                side.recompute(start, rows, scaled)
    (raising, raising_idx), (lowering, lowering_idx) = (side.sorted_best(keep) for side in sides)
    return TopEffects(raising_idx, raising, lowering_idx, lowering), total


def _merge_chunks(
    chunks: Iterator[tuple[int, Float[Tensor, "b width"]]],
) -> Iterator[tuple[int, Float[Tensor, "b width"]]]:
    """Concatenate neighbouring chunks."""
    pending: list[Tensor] = []
    start = 0
    for position, rows in chunks:
        if not pending:
            start = position
        pending.append(rows)
        if sum(map(len, pending)) >= ROWS_AT_ONCE:
            yield start, torch.cat(pending)
            pending = []
    if pending:
        yield start, torch.cat(pending)


def has_bfloat16() -> bool:
    """Return whether the processor has instructions for products in bfloat16."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _topk(
    effect: Float[Tensor, "q b"], keep: int, *, largest: bool
) -> tuple[Float[Tensor, "q keep"], Tensor]:
    """Return `topk` along rows, searched only in groups whose best values are among the best."""
    q, b = effect.shape
    n_grouped = b // GROUPED * GROUPED
    if n_grouped // GROUPED < 2 * keep:
        return effect.topk(keep, 1, largest=largest)
    grouped = effect[:, :n_grouped].view(q, GROUPED, n_grouped // GROUPED)
    if largest:
        extremes = grouped.amax(1)
    else:
        extremes = grouped.amin(1)
    groups = extremes.topk(keep, 1, largest=largest).indices
    members = groups[:, None] + torch.arange(GROUPED)[:, None] * (n_grouped // GROUPED)
    tail = torch.arange(n_grouped, b).expand(q, -1)
    index = torch.cat([members.flatten(1), tail], 1)
    result, order = effect.gather(1, index).topk(keep, 1, largest=largest)
    return result, index.gather(1, order)


class _Best:
    """The largest, or smallest, values of each query so far, sorted."""

    def __init__(self, m: int, keep: int, *, largest: bool):
        self._largest = largest
        self._keep = keep
        fill = torch.inf
        if largest:
            fill = -torch.inf
        self._values = torch.full((m, keep), fill)
        self._positions = torch.zeros(m, keep, dtype=torch.int64)

    def update(self, queries: slice, effect: Float[Tensor, "q b"], start: int) -> None:
        """Keep the best of the former values and of the effects of the samples from `start` on."""
        result, index = _topk(effect, min(self._keep, effect.shape[1]), largest=self._largest)
        values = torch.cat([self._values[queries], result], 1)
        positions = torch.cat([self._positions[queries], index + start], 1)
        self._values[queries], order = values.topk(self._keep, 1, largest=self._largest)
        self._positions[queries] = positions.gather(1, order)

    def recompute(
        self, start: int, rows: Float[Tensor, "b width"], scaled: Float[Tensor, "m width"]
    ) -> None:
        """Update, in float32, the kept values of the samples in `rows`, which begin at `start`."""
        in_rows = (self._positions >= start) & (self._positions < start + len(rows))
        query, position = in_rows.nonzero(as_tuple=True)
        sample = self._positions[query, position] - start
        for pairs in torch.arange(len(query)).split(PAIRS):
            products = torch.linalg.vecdot(scaled[query[pairs]], rows[sample[pairs]])
            self._values[query[pairs], position[pairs]] = products

    def sorted_best(self, keep: int) -> tuple[np.ndarray, np.ndarray]:
        """Return values and positions, [m, keep]."""
        values, order = self._values.topk(keep, 1, largest=self._largest)
        return values.double().numpy(), self._positions.gather(1, order).numpy()
